"""The policy that learns skew bounds from arrivals (S1 section 6)."""
