"""Job files: what is read, what is refused and in which words, and what Spark finds in them before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.job import Columns, Job, JobError, build, parse_job, read_job
from slackwater.policies import POLICIES
from slackwater.progress.bounds.bounded import bounded
from slackwater.progress.disorder import Disorder
from slackwater.spark.api.session import Session

FOLDER = Path("/jobs")
STREAM = """
[streams.calls]
format = "parquet"
path = "incoming"
schema = "sent TIMESTAMP, received TIMESTAMP, device STRING, level INT"
time = "sent"
disorder = {bounded = "20 seconds", timeout = "1 minute"}
"""
QUERY = """
[query]
from = "calls"
range = "30 minutes"
group_by = ["device"]
agg = {n = "count(*)", loud = "max(level)"}
"""


PRODS = """
[streams.asks]
format = "parquet"
path = "asked"
schema = "asked TIMESTAMP, until TIMESTAMP"
time = "asked"
role = "prods"
"""


def parsed(text: str) -> Job:
    return parse_job(text, FOLDER)


def refusal(text: str) -> str:
    with pytest.raises(JobError) as caught:
        parsed(text)
    return str(caught.value)


def test_every_key_is_read() -> None:
    job = parsed(
        'journal = "state"\nmode = "continuous"\ndrain = false\n'
        + STREAM
        + 'trigger = "5 seconds"\n[streams.calls.options]\nmaxFilesPerTrigger = 4\nmergeSchema = true\n'
        + QUERY
        + 'where = "level > 0"\n'
        + '[sink]\npath = "out"\nlate = "s3://bucket/late"\n'
    )
    stream, query = job.streams[0], job.query
    assert (stream.name, stream.format, stream.time) == ("calls", "parquet", "sent")
    assert stream.disorder == bounded("20 seconds", timeout="1 minute")
    assert stream.options == (("maxFilesPerTrigger", "4"), ("mergeSchema", "true"))
    assert stream.trigger == "5 seconds"
    assert (query.source, query.range, query.slide) == ("calls", "30 minutes", None)
    assert query.group_by == Columns(listed=("device",))
    assert query.agg == (("n", "count(*)"), ("loud", "max(level)"))
    assert job.continuous and not job.drain


def test_windows_may_go_by_rows_and_by_another_attribute() -> None:
    window = 'rows = 100\nwattr = "level"\ndisorder = {bounded = 5}'
    query = parsed(STREAM + QUERY.replace('range = "30 minutes"', window)).query
    assert (query.range, query.slide, query.rows, query.wattr) == (None, None, 100, "level")
    assert query.disorder == bounded(5)


def test_relative_paths_start_at_the_folder_of_the_file_and_addresses_stay() -> None:
    job = parsed('journal = "state"\n' + STREAM + QUERY + '[sink]\npath = "../out"\nlate = "s3://bucket/late"\n')
    assert job.streams[0].path == "/jobs/incoming"
    assert job.journal == "/jobs/state"
    assert job.sink == "/jobs/../out"
    assert job.late == "s3://bucket/late"


def test_select_is_a_list_or_a_table() -> None:
    listed = parsed(STREAM + QUERY.replace("range", 'select = ["device", "level"]\nrange'))
    named = parsed(STREAM + QUERY.replace("range", 'select = {device = "upper(device)"}\nrange'))
    assert listed.query.select == Columns(listed=("device", "level"))
    assert named.query.select == Columns(named=(("device", "upper(device)"),))


def test_a_sequence_has_whole_numbers_for_lengths() -> None:
    job = parsed(STREAM.replace('"20 seconds", timeout = "1 minute"', "5") + QUERY.replace('"30 minutes"', "100"))
    assert job.query.range == 100
    assert job.streams[0].disorder == bounded(5)


def test_replayed_files_that_describe_themselves_need_no_schema() -> None:
    job = parsed(_without(STREAM, "schema") + 'replay = true\narrival = "received"\npage = "1 hour"\n' + QUERY)
    assert (job.streams[0].replay, job.streams[0].arrival, job.streams[0].page) == (True, "received", "1 hour")


@pytest.mark.parametrize(
    ("written", "early"),
    [
        ("{at = 0.75}", sw.early(at=0.75)),
        ('{at = "90 seconds", coverage = 0.95}', sw.early(at="90 seconds", coverage=0.95)),
        ('{every = "5 seconds"}', sw.early(every="5 seconds")),
        ("{accuracy = 0.98}", sw.early(accuracy=0.98)),
    ],
)
def test_early_answers_are_asked_for_in_the_query(written: str, early: Any) -> None:
    assert parsed(STREAM + QUERY).query.early is None
    assert parsed(STREAM + QUERY + f"early = {written}\n").query.early == early


def test_a_stream_may_be_one_of_prods() -> None:
    job = parsed(STREAM + PRODS + QUERY)
    assert [(s.name, s.role, s.disorder is None) for s in job.streams] == [
        ("calls", None, False),
        ("asks", "prods", True),
    ]


def _without(text: str, key: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(f"{key} =")) + "\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a = [", "this is not TOML", id="syntax"),
        pytest.param("", "there is no stream; add [streams.NAME]", id="empty"),
        pytest.param("jurnal = 1" + STREAM + QUERY, "jurnal: unknown key (did you mean 'journal'?)", id="top key"),
        pytest.param(
            STREAM.replace("time =", "tiem =", 1).replace("tiemout", "timeout") + QUERY,
            "streams.calls.tiem: unknown key (did you mean 'time'?)",
            id="stream key",
        ),
        pytest.param(
            STREAM + QUERY + "slied = 1", "query.slied: unknown key (did you mean 'slide'?)", id="query key"
        ),
        pytest.param(
            STREAM + QUERY + '[sink]\npth = "x"', "sink.pth: unknown key (did you mean 'path'?)", id="sink"
        ),
        pytest.param(_without(STREAM, "format") + QUERY, "streams.calls.format is missing", id="format"),
        pytest.param(_without(STREAM, "path") + QUERY, "streams.calls.path is missing", id="path"),
        pytest.param(_without(STREAM, "schema") + QUERY, "streams.calls.schema is missing", id="schema"),
        pytest.param(_without(STREAM, "time") + QUERY, "streams.calls.time is missing", id="time"),
        pytest.param(
            _without(STREAM, "disorder") + QUERY,
            "streams.calls.disorder is missing; say how late rows may come, as in disorder = {bounded",
            id="disorder",
        ),
        pytest.param(
            STREAM.replace("{bounded", "{bouned") + QUERY,
            "streams.calls.disorder: unknown policy 'bouned' (did you mean 'bounded'?); known policies: bounded, ",
            id="policy",
        ),
        pytest.param(
            STREAM.replace("timeout", "timout") + QUERY,
            "streams.calls.disorder.timout: unknown key",
            id="policy option",
        ),
        pytest.param(
            STREAM.replace('"1 minute"', '"1 month"') + QUERY,
            "streams.calls.disorder: unknown unit 'month'",
            id="unit",
        ),
        pytest.param(STREAM.replace('"1 minute"', "5") + QUERY, "streams.calls.disorder: ", id="policy value"),
        pytest.param(
            STREAM + 'arrival = "received"' + QUERY,
            "streams.calls.arrival is for a replay; add replay = true",
            id="arr",
        ),
        pytest.param(STREAM + "replay = true" + QUERY, "streams.calls.arrival is missing", id="replay"),
        pytest.param(
            STREAM + 'replay = "yes"' + QUERY, "streams.calls.replay: 'yes'; write true or false", id="flag"
        ),
        pytest.param(
            STREAM + 'trigger = "often"' + QUERY, "streams.calls.trigger: cannot read 'often'", id="trigger"
        ),
        pytest.param(
            'mode = "continuous"' + STREAM + 'replay = true\narrival = "received"' + QUERY,
            "mode: the stream 'calls' is a replay",
            id="endless replay",
        ),
        pytest.param('mode = "fast"' + STREAM + QUERY, "mode: 'fast' is unknown; write", id="mode"),
        pytest.param(STREAM, 'query.from is missing; write for example from = "calls"', id="no query"),
        pytest.param(
            STREAM + QUERY.replace('"calls"', '"cals"'),
            "query.from: there is no stream 'cals' (did you mean 'calls'?); there are calls",
            id="from",
        ),
        pytest.param(STREAM + _without(QUERY, "range"), "query.range is missing", id="range"),
        pytest.param(
            STREAM + QUERY.replace('"30 minutes"', "true"), "query.range: True is no length", id="range type"
        ),
        pytest.param(STREAM + _without(QUERY, "agg"), "query.agg is missing", id="agg"),
        pytest.param(
            STREAM + _without(QUERY, "agg") + 'agg = ["count(*)"]', "query.agg: aggregates need names", id="x"
        ),
        pytest.param(
            STREAM + QUERY.replace('["device"]', "[1]"), "query.group_by: [1]; expressions are text", id="g"
        ),
        pytest.param(
            STREAM + QUERY + "early = 0.75", "query.early: 0.75 does not say when to answer; write for", id="early"
        ),
        pytest.param(
            STREAM + QUERY + "early = {coverage = 0.9}", "query.early: {'coverage': 0.9} does not say", id="when"
        ),
        pytest.param(
            STREAM + QUERY + "early = {evry = 1}",
            "query.early.evry: unknown key (did you mean 'every'?); known keys: at, every",
            id="early key",
        ),
        pytest.param(STREAM + QUERY + "early = {at = 1.5}", "query.early: early(at=1.5): a share", id="share"),
        pytest.param(
            STREAM + QUERY + 'early = {accuracy = "good"}',
            "query.early: early(accuracy='good') must be a number between 0 and 1, as in accuracy=0.98",
            id="accuracy",
        ),
        pytest.param(
            STREAM + PRODS.replace('"prods"', '"prod"') + QUERY,
            "streams.asks.role: there is no role 'prod'; write role = \"prods\"",
            id="role",
        ),
        pytest.param(
            STREAM + PRODS + 'disorder = {bounded = "1 second"}' + QUERY,
            "streams.asks.disorder: a stream of prods moves no time; leave it out",
            id="prods in order",
        ),
        pytest.param(PRODS + QUERY, "all streams have a role; add [streams.NAME] without one", id="only prods"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(text: str, said: str) -> None:
    assert refusal(text).startswith(said)


def test_an_error_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "calls.toml").write_text("x = 1")
    with pytest.raises(JobError, match=r"^calls\.toml: x: unknown key"):
        read_job(tmp_path / "calls.toml")
    with pytest.raises(JobError, match=r"cannot read job file .*missing\.toml': No such file"):
        read_job(tmp_path / "missing.toml")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "incoming").mkdir()
    return tmp_path


@pytest.mark.spark
def test_building_gives_the_plan_and_starts_nothing(spark: SparkSession, folder: Path) -> None:
    job = parse_job(
        STREAM + QUERY + 'where = "level > 0"\nselect = {device = "upper(device)", level = "level"}', folder
    )
    with Session(spark) as session:
        plan = build(job, session).describe()
    assert plan.startswith("stream calls (sent timestamp, received timestamp, device string")
    assert "where level > 0" in plan
    assert "upper(device)" in plan
    assert spark.streams.active == []


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            STREAM.replace('"sent"', '"snt"') + QUERY, "streams.calls: time 'snt': there is no column", id="t"
        ),
        pytest.param(STREAM.replace("INT", "INTO") + QUERY, "streams.calls.schema: cannot read", id="schema"),
        pytest.param(
            STREAM.replace('"parquet"', '"parqet"') + QUERY,
            "streams.calls: Spark cannot read format 'parqet' (did you mean 'parquet'?): ",
            id="format",
        ),
        pytest.param(
            STREAM.replace('"incoming"', '"gone"') + QUERY, "streams.calls.path: there is no file", id="path"
        ),
        pytest.param(
            STREAM + QUERY + 'where = "volume > 3"',
            "query.where: where 'volume > 3': there is no column",
            id="where",
        ),
        pytest.param(
            STREAM + QUERY + 'select = ["nope(level)"]', "query.select: select 'nope(level)'", id="select"
        ),
        pytest.param(STREAM + QUERY + 'slide = "1 hour"', "query: slide='1 hour' is longer than range", id="slide"),
        pytest.param(STREAM + QUERY + "rows = 5", "query: range='30 minutes' and rows=5: a window has", id="rows"),
        pytest.param(STREAM + QUERY + 'wattr = "level"', "query: wattr='level': the policy of stream", id="wattr"),
        pytest.param(STREAM + QUERY.replace('["device"]', '["phone"]'), "query.group_by: ", id="group_by"),
        pytest.param(STREAM + QUERY.replace("max(level)", "max(lvl)"), "query.agg: ", id="agg"),
        pytest.param(
            STREAM + QUERY + "early = {at = 0.5}", "query.early: early=: a window for each row is", id="early"
        ),
    ],
)
def test_spark_finds_a_mistake_before_the_run(spark: SparkSession, folder: Path, text: str, said: str) -> None:
    with Session(spark) as session, pytest.raises(JobError) as caught:
        build(parse_job(text, folder), session)
    assert str(caught.value).startswith(said)


@pytest.mark.spark
def test_a_sink_that_is_a_file_is_refused(spark: SparkSession, folder: Path) -> None:
    (folder / "out").touch()
    job = parse_job(STREAM + QUERY + '[sink]\npath = "out"\n', folder)
    with Session(spark) as session, pytest.raises(JobError, match=r"sink\.path: .* is a file; give a folder"):
        build(job, session)


SOURCES = {"a": "2 seconds", "b": "5 seconds"}
COUNTER = ("10 ms", "40 ms")


@pytest.mark.parametrize(
    ("written", "policy"),
    [
        ('{bounded = "20 seconds"}', sw.bounded("20 seconds")),
        ('{drop_ratio = "1%", stretch = "10 minutes"}', sw.drop_ratio(0.01, stretch="10 minutes")),
        ("{learned = true}", sw.learned()),
        ("{learned = 500, alpha = 0.25, adaptive = true}", sw.learned(500, 0.25, adaptive=True)),
        ('{disorder_control = "5%", every = "1 second"}', sw.disorder_control("5%", every="1 second")),
        ("{max_delay = true}", sw.max_delay()),
        ('{punctuated = "upto", timeout = "1 hour"}', sw.punctuated("upto", timeout="1 hour")),
        ('{sensors = "2 seconds", rate = [5, "1 second"]}', sw.sensors("2 seconds", rate=(5, "1 second"))),
        ('{sensors = {a = "2 seconds", b = "5 seconds"}, timeout = 9}', sw.sensors(SOURCES, timeout=9)),
        ('{global_counter = ["10 ms", "40 ms"], latency = 7}', sw.global_counter(COUNTER, latency=7)),
        ('{global_counter = {a = ["10 ms", "40 ms"]}}', sw.global_counter({"a": COUNTER})),
        ('{skew = [[[0, "5 seconds"]]], timeout = 9}', sw.skew([[(0, "5 seconds")]], timeout=9)),
        (
            '{skew = [[[], [0, 5]], [[[1, 9], {n = 3, delta = 0}], []]], sources = ["a", "b"], timeout = 9}',
            sw.skew([[None, (0, 5)], [[(1, 9), sw.tuples(3, 0)], None]], sources=["a", "b"], timeout=9),
        ),
    ],
)
def test_every_policy_can_be_written(written: str, policy: Disorder) -> None:
    text = STREAM.replace('{bounded = "20 seconds", timeout = "1 minute"}', written)
    stream = parsed(text + 'source = "device"\n' + QUERY).streams[0]
    assert (stream.disorder, stream.source) == (policy, "device")


def test_every_example_of_a_policy_is_one() -> None:
    for name, policy in POLICIES.items():
        made = parsed(STREAM.replace('{bounded = "20 seconds", timeout = "1 minute"}', policy.example) + QUERY)
        assert made.streams[0].disorder.describe().startswith(name)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('{skew = "5 seconds"}', "write a row for each source"),
        ("{skew = [[{n = 3}]]}", "a tuple-based bound is written {n = 3, delta = 0}"),
        ("{drop_ratio = 3}", "is not between 0 and 1"),
        ("{disorder_control = 101}", "must lie between 0 and 1"),
        ("{sensors = -4}", "negative"),
        ("{learned = true, alpha = 2}", "alpha"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(written: str, message: str) -> None:
    assert message in refusal(STREAM.replace('{bounded = "20 seconds", timeout = "1 minute"}', written) + QUERY)
