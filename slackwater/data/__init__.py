"""Data that come with the package, for first programs and tests; LICENSES.md says where they are from."""

from importlib.resources import files

#: Path of a Parquet file: departures from New York in 2013, 328,521 rows in the order in which they left.
FLIGHTS = str(files(__name__) / "flights.parquet")
