"""What lies on a file system: places, the journal's files, and sinks."""
