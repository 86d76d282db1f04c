"""Which options are to blame: delta debugging. Pure; the test is passed in."""
