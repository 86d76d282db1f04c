"""What several rules look at: names, launches, splits, sweeps."""
