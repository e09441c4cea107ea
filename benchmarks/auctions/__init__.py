"""Nexmark: an auction house as three streams, questions about them, and their answers by other means."""
