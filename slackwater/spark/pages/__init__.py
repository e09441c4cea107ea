"""Pages on Spark: DataFrames and tables, the jobs that fold them, and what does not fit into the driver."""
