"""What goes wrong, said to the person who wrote it: the thing, what is wrong with it, what to write instead."""


class SlackwaterError(Exception):
    """Every error that Slackwater raises on purpose."""


class QueryError(SlackwaterError, ValueError):
    """A stream, query, window, aggregate or policy that cannot mean what was written."""


class JournalError(SlackwaterError):
    """A journal that cannot be used for this query, or that cannot be read."""


class SinkError(SlackwaterError):
    """A sink that cannot take results."""


class RunError(SlackwaterError):
    """A running query that failed, or that was asked for something in the wrong state."""
