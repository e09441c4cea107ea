"""A query as frozen data: what to compute, never how or when."""
