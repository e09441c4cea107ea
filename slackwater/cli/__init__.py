"""The command line: `slackwater demo`, `sql`, `run` and `check`."""

from slackwater.cli.app import app, main

__all__ = ["app", "main"]
