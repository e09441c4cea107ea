"""How rows come in: from Structured Streaming, or replayed from a static DataFrame."""
