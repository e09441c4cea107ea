"""The papers' experiments: programs to run, and the lab that they share."""
