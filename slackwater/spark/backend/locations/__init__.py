"""Where the rows of a source lie, so that they are read there."""
