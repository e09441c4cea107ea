"""Policies that know how late rows may come: constant bounds, punctuations, skew bounds (S1 sections 2 to 5)."""
