"""Aggregate functions: one file says all of a function, `registry` lists them."""
