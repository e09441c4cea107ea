"""Kill storms on Spark: make storm."""
