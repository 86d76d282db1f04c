"""What a kernel's source says of it: loads, stores, sweeps, arithmetic."""
