"""Pages on Spark: where rows lie, steps compiled, jobs that fold them."""
