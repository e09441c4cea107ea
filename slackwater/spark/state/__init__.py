"""What operators keep on the session's storage."""
