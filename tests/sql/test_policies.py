"""Every disorder policy has its words, and is written back with them."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater.progress.disorder import Disorder
from slackwater.progress.policies import POLICIES, in_python
from slackwater.scheduling.heartbeats import HEARTBEATS
from slackwater.scheduling.strategy import STRATEGIES
from slackwater.sql import statements as S
from slackwater.sql.parse import parse
from slackwater.sql.policies import policy_sql
from slackwater.sql.scope import Scope

SOURCES = {"a": "2 seconds", "b": "5 seconds"}
COUNTER = ("10 ms", "40 ms")


def policy(words: str) -> Disorder:
    text = f"CREATE STREAM x FROM 'rate' TIME t SOURCE device DISORDER {words} TRIGGER 5 SECONDS"
    (statement,) = parse(text, Scope()).statements
    assert isinstance(statement, S.CreateStream)
    assert (statement.source, statement.trigger) == ("device", "5 seconds")
    assert statement.disorder is not None
    return statement.disorder


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ("BOUNDED 20 SECONDS", sw.bounded("20 seconds")),
        ("BOUNDED 5 TIMEOUT 1 MINUTE", sw.bounded(5, timeout="1 minute")),
        ("DROP RATIO 1% STRETCH 10 MINUTES", sw.drop_ratio(0.01, stretch="10 minutes")),
        ("DROP RATIO 0.05 STRETCH 50", sw.drop_ratio(0.05, stretch=50)),
        ("RESULT ERROR 1%", sw.result_error(0.01)),
        ("RESULT ERROR 5% WINDOWS 99% TIMEOUT 1 MINUTE", sw.result_error(0.05, windows="99%", timeout="1 minute")),
        ("LEARNED", sw.learned()),
        ("LEARNED 500 ALPHA 0.25 ADAPTIVE GROUPS 3", sw.learned(500, 0.25, adaptive=True, groups=3)),
        ("CONTROL 5% EVERY 1 SECOND", sw.papers.disorder_control("5%", every="1 second")),
        ("MAX DELAY", sw.papers.max_delay()),
        ("PUNCTUATED BY upto TIMEOUT 1 HOUR", sw.punctuated("upto", timeout="1 hour")),
        ("PUNCTUATED BY upto EVERYONE '*'", sw.punctuated("upto", everyone="*")),
        (
            "PUNCTUATED BY upto SINCE 'since' ON ('sensor', 'lane')",
            sw.punctuated("upto", since="since", on=["sensor", "lane"]),
        ),
        ("PUNCTUATED BY upto ON 'sensor'", sw.punctuated("upto", on="sensor")),
        ("SENSORS 2 SECONDS RATE (5, 1 SECOND)", sw.sensors("2 seconds", rate=(5, "1 second"))),
        ("SENSORS ('a' = 2 SECONDS, b = 5 SECONDS) TIMEOUT 9 TIES", sw.sensors(SOURCES, timeout=9, ties=True)),
        ("GLOBAL COUNTER (10 MS, 40 MS) LATENCY 7", sw.papers.global_counter(COUNTER, latency=7)),
        ("GLOBAL COUNTER (10 MS, 40 MS) ORDERED", sw.papers.global_counter(COUNTER, ordered=True)),
        ("GLOBAL COUNTER ('a' = (10 MS, 40 MS)) COUNTED", sw.papers.global_counter({"a": COUNTER}, counted=True)),
        ("SENSORS 2 SECONDS GROUPS ('g' = ('a', 'b'))", sw.sensors("2 seconds", groups={"g": ["a", "b"]})),
        ("SKEW (((0, 5 SECONDS))) TIMEOUT 9", sw.skew([[(0, "5 seconds")]], timeout=9)),
        (
            "SKEW ('a' TO 'b' = (0, 5), 'b' TO 'a' = ((1, 9), TUPLES (3, 0))) TIMEOUT 9 INDIRECT FALSE",
            sw.skew({("a", "b"): (0, 5), ("b", "a"): [(1, 9), sw.tuples(3, 0)]}, timeout=9, indirect=False),
        ),
        (
            "SKEW (((), (0, 5)), (((1, 9), TUPLES (3, 0)), ())) SOURCES ('a', 'b') TIMEOUT 9",
            sw.skew([[None, (0, 5)], [[(1, 9), sw.tuples(3, 0)], None]], sources=["a", "b"], timeout=9),
        ),
    ],
)
def test_every_policy_can_be_written_and_written_back(words: str, made: Disorder) -> None:
    assert policy(words) == made
    assert policy(policy_sql(made)) == made


def test_every_example_of_a_policy_is_one() -> None:
    for entry in POLICIES:
        assert policy(entry.example).describe().startswith(entry.make.__name__)


#: Functions that are no disorder policies.
OTHERS = {*STRATEGIES, *HEARTBEATS, "on_demand", "no_enabling", "periodic"}


def test_every_policy_of_the_package_has_its_words() -> None:
    others = {
        "early",
        "export_metrics",
        "log_json",
        "parquet",
        "prod",
        "sideline",
        "sinks",
        "tune",
        "tuples",
        "internal",
        "latent",
        "papers",
        *OTHERS,
    }
    functions = {name for name in (*sw.__all__, *sw.papers.__all__) if name.islower()} - others
    assert functions == {entry.make.__name__ for entry in POLICIES}


@pytest.mark.parametrize(
    "made",
    [
        sw.sensors({f"it's {n}": n for n in range(12)}, latency={f"it's {n}": "1 second" for n in range(12)}),
        sw.sensors("2 seconds", rate={"a": 0.99, "b": (5, "1 second")}, unit="1 second", indirect=False),
        sw.learned(500, tmax="1 minute", unit="2 seconds", timeout="1 hour", initial="3 seconds"),
        sw.skew([[[(0, 5), (1, 9)]]], latency=3, timeout="1 minute"),
        sw.skew({("a", "b"): sw.tuples(3, 0)}, sources=["a", "b", "c"], groups=2, timeout=1),
        sw.papers.disorder_control(0, timeout="1 minute"),
        sw.papers.max_delay(timeout="90 seconds"),
        sw.bounded("1.5"),
    ],
)
def test_every_setting_is_written_back(made: Disorder) -> None:
    assert policy(policy_sql(made)) == made


@pytest.mark.parametrize("made", [sw.learned(window=None), sw.learned(timeout=None)])
def test_a_setting_without_words_cannot_be_written(made: Disorder) -> None:
    with pytest.raises(sw.QueryError, match="the setting None of a policy has no SQL"):
        policy_sql(made)


def test_a_policy_can_be_copied_into_a_program() -> None:
    for entry in POLICIES:
        found = eval(in_python(entry.make.__name__), {"sw": sw})
        assert found is entry.make
