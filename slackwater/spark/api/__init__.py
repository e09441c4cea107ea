"""The objects of a user: session, streams, queries and runs."""
