"""The test kit: in-process pages, a scripted session on a hand-moved clock, a list sink. No Spark in here."""

from slackwater.progress.clock import ManualClock
from slackwater.testing.arrow_page import ArrowPage
from slackwater.testing.script import ListSink, Script, arrow_plan
from slackwater.testing.stream_spec import StreamSpec

__all__ = ["ArrowPage", "ListSink", "ManualClock", "Script", "StreamSpec", "arrow_plan"]
