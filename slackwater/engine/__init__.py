"""The executor's cycle, the queues on the arcs, the journal, and the thread that keeps them going (S3)."""
