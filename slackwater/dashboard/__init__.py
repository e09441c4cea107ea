"""The live page: what a session does, in a browser and for machines that watch it."""

from slackwater.dashboard.server import LivePage
from slackwater.dashboard.watched import Watched, WatchedQuery

__all__ = ["LivePage", "Watched", "WatchedQuery"]
