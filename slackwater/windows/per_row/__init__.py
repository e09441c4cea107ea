"""Windows for each row (S4 section 1): over a stretch of time before it, or over the last n rows."""
