"""Which attention backend the target would take."""
