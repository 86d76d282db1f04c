"""What machine code says of a kernel: registers, spills, memory instructions."""
