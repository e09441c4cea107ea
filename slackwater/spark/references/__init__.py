"""Rows that stay where they are: what a page notes of them instead of a copy. Each kind of source has a file."""
