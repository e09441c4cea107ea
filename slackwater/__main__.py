"""`python -m slackwater` is the command `slackwater`."""

from slackwater.cli import main

main()
