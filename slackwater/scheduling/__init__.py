"""What to run next: strategies are pure values that pick among ready operators (S2)."""
