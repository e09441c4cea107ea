"""What a user holds: the session, streams and queries, and what runs."""
