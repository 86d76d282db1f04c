"""What a compiled kernel is made of: source, machine code, traffic, occupancy."""
