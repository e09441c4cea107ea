"""The figures of a run, field by field. The tables of `docs/metrics.md` are made of these texts."""

from __future__ import annotations

from typing import Any, TypedDict

from slackwater.engine.figures import ShownFigures


class Loss(TypedDict):
    """Lost rows of one minute and one source."""

    minute: str
    """Of the stream's time; where that is no timestamp, the slide of the windows."""
    source: str | None
    """None where the rows are not counted by source."""
    rows: int
    """Rows that were lost."""


class ChoiceMetrics(TypedDict):
    """What the strategy chose."""

    run: int
    """The number of the run; of a commit, that of the run before it."""
    chose: str
    """An operator, or "commit"."""
    ready: int
    """How many operators of all queries could have run."""
    why: str
    """The rule that decided, or what the strategy compares."""


class AccuracyMetrics(TypedDict, total=False):
    """How good the early answers of one aggregate have been; only `pairs` while none has become final."""

    pairs: int
    """Early values that a final one has come for."""
    seen: float
    """Mean accuracy of what had arrived."""
    estimate: float
    """Mean accuracy of the estimates."""
    recent: float
    """The same, the last windows counting most."""
    worst_seen: float
    """The least accuracy of what had arrived."""
    worst_estimate: float
    """The least accuracy of the estimates."""
    coverage: float | None
    """Share of the intervals that held the final value."""
    all_held: float | None
    """Share of windows (by group) in which all intervals held the final value; one interval counts for each age."""
    intervals: int
    """Intervals that were given."""
    borrowed: int
    """Of these, how many went by the errors of other groups, because a group had few windows of its own."""
    latency_gain: float
    """Seconds by which early answers came before final ones, in the mean."""


class StreamMetrics(TypedDict, total=False):
    """A stream, by the disorder policy of the query. Lengths of time are seconds, or numbers as the time is."""

    heartbeat: str
    """All rows up to this time have come, as the policy sees it (Spark: watermark)."""
    lag_seconds: float | None
    """By how much the heartbeat is behind the clock; None where time is no timestamp, or there is none yet."""
    silent_seconds: float | None
    """Seconds since the last row. Before the first one: since reading began; None before that."""
    pages: int
    """Pages that have come."""
    rows: int
    """Rows that have come."""
    missing_time: int
    """Rows whose time is null or cannot be read."""
    far_ahead: int
    """Rows whose time was too far ahead to be believed; see `ahead=` of `Session.stream`."""
    idle: bool
    """Whether nothing has come for as long as the timeout: unions and joins do not wait for the stream."""
    ungrammatical_rows: int
    """Rows older than a punctuation of their own source; only with `punctuated`."""
    pages_together: int
    """How many waiting pages were last taken as one."""
    lateness: dict[str, float]
    """How much older rows are than the largest time so far: what 50, 90, 99, 99.9 and 100 % do not exceed."""
    lateness_shares: list[list[float]]
    """The same as a histogram: the upper end of each bin, and its share of the rows."""
    wait: float | None
    """By how much the heartbeat is behind the largest time seen: rows that come later than this may be lost."""
    disorder: str
    """The policy, as a user writes it."""
    policy: dict[str, Any]
    """The policy's own figures."""
    held_back_by: dict[str, str]
    """The sources inside the stream with the lowest heartbeats, five at most, where the policy knows sources."""


class OperatorMetrics(ShownFigures):
    """One operator."""

    heartbeat: str
    """The time up to which it has given all its rows."""
    lag_seconds: float | None
    """By how much that is behind the clock."""
    registers: list[str]
    """The time up to which each of its inputs has given all rows."""
    state_bytes: int
    """Bytes that it keeps."""


class Metrics(StreamMetrics, total=False):
    """A run. It has the figures of its stream; of several streams, the lowest heartbeat and sums."""

    streams: dict[str, StreamMetrics]
    """Each stream by its name."""
    late_rows: int
    """Rows that came too late for some window, for a join, or for `drop_duplicates`."""
    duplicates: int
    """Rows that `drop_duplicates` has dropped."""
    lost_pairs: int
    """Pairs of a row and a window whose final answer lacks the row."""
    lost_share: float
    """Their share of all pairs."""
    late_by_source: dict[str, int]
    """The sources with most late rows, ten at most; where windows close by source."""
    lost_by_window: dict[str, int]
    """The latest windows that lost rows, by their start."""
    losses: list[Loss]
    """The latest lost rows by minute and source, thirty at most."""
    windows: int
    """Windows that were closed."""
    results: int
    """Final rows that the sink got."""
    early_results: int
    """Early rows that the sink got."""
    filled_results: int
    """Answers that `fill=` gave for windows in which a known group had no row."""
    corrected_results: int
    """Answers that late rows have corrected; with `corrections=`."""
    archived_files: int
    """Files with partial aggregates of closed windows, and with the commits of their answers."""
    archived_bytes: int
    """Size of these files in bytes, as tables in memory."""
    accuracy: dict[str, AccuracyMetrics]
    """How good early answers have been, by aggregate; after the first early answer."""
    prods: int
    """Prods that the query has sent itself, because of `early=`."""
    prodded_at: float
    """Which share of the slide has passed when it prods."""
    running_accuracy: float
    """The recent accuracy at that place."""
    target_reachable: bool
    """Whether the target accuracy can be had before final answers come; with `early(accuracy=…)`."""
    prods_refused: int
    """Prods that made no sense for the query."""
    prod_streams: dict[str, dict[str, int]]
    """Prods of each stream of prods, and how many were refused."""
    store: str
    """Where the state is: "resident" in the driver, or "spilled" to files."""
    panes: int
    """Panes that are kept."""
    partials: int
    """Partial aggregates in them."""
    state_bytes: int
    """Bytes of the state in the driver."""
    spilled_bytes: int
    """Bytes of the state in files."""
    lanes: int
    """Parts of the state, one for each source, in windows for each row."""
    slack_rows: int
    """Rows above the heartbeat, in windows for each row."""
    window_rows: int
    """Rows below it that later windows still need."""
    waiting_rows: int
    """Rows that wait for their turn before an ordered sink."""
    joins: dict[str, dict[str, Any]]
    """Late rows and state of each join."""
    inner: list[dict[str, Any]]
    """Figures of the aggregates below others."""
    parts: list[dict[str, Any]]
    """Figures of each of several windows whose results the query gives."""
    mapped_pages: int
    """Pages that a `map` has worked on."""
    sidelined_pages: int
    """Pages that were set aside in a burst."""
    sideline: int
    """Pages that wait there now."""
    results_dropped: int
    """Rows that `results()` has no room for any more."""
    queued: int
    """Elements that wait on the query's arcs."""
    queued_rows: int
    """Rows that wait there, as far as they are known."""
    queued_bytes: int
    """Their bytes; files of a source that are only noted count as what they take where they are."""
    waiting_for_time: int
    """Rows that wait inside operators until the heartbeat has passed them."""
    memory_bytes: int
    """Bytes of waiting pages that the session holds in Spark's memory (`Session(memory=…)`)."""
    spool_bytes: int
    """Bytes of waiting pages that it has copied to files (`Session(disk=…)`)."""
    journal_bytes: int
    """Bytes of the journal that a restart reads: the latest whole record and the changes since."""
    pushed_back_seconds: float
    """Seconds for which Spark's reading was held up because there was no more room."""
    strategy: str
    """What decides which operator runs next."""
    choices: list[ChoiceMetrics]
    """What it chose last: operators of the query, and commits; the latest last, of the last 64 of the session."""
    operators: dict[str, OperatorMetrics]
    """Each operator by its label."""
    spark_jobs: int
    """Spark jobs of the session."""
    spark_seconds: float
    """How long they took."""
