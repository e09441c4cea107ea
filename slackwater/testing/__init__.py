"""The test kit: in-process pages, a scripted session on a hand-moved clock, a list sink. No Spark in here."""

from slackwater.progress.clock import ManualClock
from slackwater.testing.backend import arrow_page
from slackwater.testing.pages import ArrowPages
from slackwater.testing.script import ListSink, Script, arrow_plan
from slackwater.testing.stream_spec import StreamSpec

__all__ = ["ArrowPages", "ListSink", "ManualClock", "Script", "StreamSpec", "arrow_page", "arrow_plan"]
