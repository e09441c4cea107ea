"""SQL as text, read into the logical nodes that the fluent API builds, and written back. No Spark in here."""
