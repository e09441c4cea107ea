"""The Spark back end: the only room that knows pyspark."""
