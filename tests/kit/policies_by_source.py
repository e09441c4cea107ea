"""A policy of each kind that tells the sources of a stream apart, for random streams of small times."""

from __future__ import annotations

from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.bounds.punctuated import punctuated
from slackwater.progress.disorder import Disorder
from slackwater.progress.drop_ratio.drop_ratio import drop_ratio
from slackwater.progress.learned.learned import learned
from slackwater.progress.result_error.result_error import result_error

POLICIES: dict[str, Disorder] = {
    "bounded": bounded(6),
    "learned": learned(window=9, tmax="4 us", unit="2 us"),
    "drop_ratio": drop_ratio("20%", stretch=10),
    "result_error": result_error("20%", windows="80%"),
    "punctuated": punctuated("i"),
}
