"""The kinds of plan nodes: what `analyse` gives. A handful of typed fields each; the graph is in `inputs`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pyarrow as pa

from slackwater.columns import NO_SOURCE, SOURCE
from slackwater.plan.identifiers import Wanted, bare, named_columns, used_columns
from slackwater.plan.node import ByAttribute, NeverEarly, PlanNode, TimeOfInput
from slackwater.plan.step import Columns, Step
from slackwater.plan.steps import ResultsAsRows
from slackwater.plan.time_columns import TimeColumns, through
from slackwater.progress.bounds.between_streams import StreamBounds
from slackwater.progress.bounds.punctuated import Punctuated
from slackwater.progress.disorder import Disorder, Tracker
from slackwater.progress.silence import with_default_timeout
from slackwater.progress.time import Span, TimeDomain
from slackwater.progress.time_kinds import Latent
from slackwater.windows.correction import Correction
from slackwater.windows.fill import Fill
from slackwater.windows.kernel import Group, PaneKernel
from slackwater.windows.per_row.rolling import RollingKernel
from slackwater.windows.results import WINDOW_END, WINDOW_START, early_schema, row_columns, seen, with_numbers


@dataclass(frozen=True)
class StreamNode(NeverEarly, PlanNode):
    """A declared stream: where rows come from and what their time is."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Names and types of the stream's columns, the types in Spark's words."""
    time: str
    """Spark SQL that gives a row's time in ticks."""
    written_time: str
    """The time as the user wrote it."""
    domain: TimeDomain
    disorder: Disorder
    source: str | None = None
    """The column, or Spark SQL expression, that names a row's source; for a stream of many sources."""
    punctuation: str | None = None
    """Spark SQL that gives, in ticks, the punctuation that a row carries; for a punctuated stream."""
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    signals: Columns = ()
    """Spark SQL of what else rows tell the engine, by the names of `operators/signal_reader.py`."""
    of: str = ""
    """The declared stream, if this node reads it by another time attribute."""
    ahead: Span | None = None
    """How far ahead of the clock the times of rows are believed, as written; see `read_ahead`."""
    live: bool = False
    """Whether it goes on for ever, unlike a replay: then each policy has a timeout, or needs none."""
    partitioned: bool = False
    """Whether its sources are partitions of a log that says how far each was read (`LogEnds`)."""
    bounds: StreamBounds | None = None
    """What bounds between streams say of it, whatever policy it is read by."""

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """None: rows begin here."""
        return ()

    def policy(self, own: Disorder | None) -> Disorder:
        """The policy to read it by: a query's own one, if it has one, or the stream's."""
        return self.disorder if own is None else with_default_timeout(own) if self.live else own

    def fresh_tracker(self, policy: Disorder) -> Tracker:
        """A tracker for it, by a policy and by the bounds between streams."""
        own = policy.tracker(self.domain).of_partitions() if self.partitioned else policy.tracker(self.domain)
        return own if self.bounds is None else self.bounds.tracker(own, self.domain)

    @property
    def declared(self) -> str:
        """Name of the declared stream that is read."""
        return self.of or self.name

    def describe(self) -> str:
        """Its columns, time, policy and source."""
        return self._text(f" {self.policy_text()}")

    def kept_text(self) -> str:
        return self._text("")

    def _text(self, policy: str) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        shown = "".join(f" {k} {v}" for k, v in (("source", self.source), ("ahead", self.ahead)) if v)
        return f"stream {self.name} ({columns}) time {self.written_time} [{self.domain.value}]{policy}{shown}"

    def policy_text(self) -> str:
        """How far it is out of order, in words: its policy, and what bounds it by other streams."""
        return f"disorder {self.disorder.describe()}{self.bounds or ''}"

    def used_columns(self, wanted: Wanted) -> set[str]:
        """The columns to read: what is wanted, and what gives the time, the source and punctuations."""
        hidden = [sql for sql in (self.time, self.source, self.punctuation) if sql is not None]
        hidden += [sql for _, sql in self.signals]
        return used_columns([name for name, _ in self.columns], None if wanted is None else [*wanted, *hidden])

    def is_source(self, text: str) -> bool:
        """By the text of its own source."""
        return self.source is not None and text == bare(self.source)

    def time_columns(self) -> TimeColumns:
        """The time as the user wrote it, if it is a column."""
        return through(((name, f"`{name}`") for name, _ in self.columns), {bare(self.written_time): (0, 0)})

    def by_attribute(self, written: str, stream: ByAttribute) -> StreamNode:
        """The stream by the other attribute."""
        return stream(self, written)

    def over(self, inputs: tuple[PlanNode, ...]) -> StreamNode:
        """It has no inputs."""
        return self

    def renamed(self, names: Mapping[str, str]) -> StreamNode:
        """The same rows by another name."""
        name = names.get(self.name, self.name)
        return self if name == self.name else replace(self, name=name, of=self.declared)

    @property
    def latent(self) -> bool:
        """By its kind of time."""
        return isinstance(self.disorder, Latent)

    @property
    def over_results(self) -> bool:
        """These are rows of a stream."""
        return False

    def as_stream(self) -> StreamNode:
        """Itself."""
        return self


@dataclass(frozen=True)
class StepNode(TimeOfInput, PlanNode):
    """A step on every page: a filter, a projection, a join with a stored table."""

    keeps_nothing: ClassVar[bool] = True
    inputs: tuple[PlanNode, ...]
    step: Step
    schema: pa.Schema
    early_schema: pa.Schema | None = None

    @property
    def expensive(self) -> bool:  # type: ignore[override]
        """As the step says."""
        return self.step.expensive

    @property
    def drops_rows(self) -> bool:  # type: ignore[override]
        """As the step says."""
        return self.step.drops_rows

    def describe(self) -> str:
        """The step."""
        return self.step.describe()

    @property
    def shown(self) -> bool:
        """As the step says."""
        return self.step.shown

    def same_work(self) -> object:
        return self.step

    def wants(self, wanted: Wanted, late_rows: bool) -> Wanted:
        """As the step says."""
        return self.step.wants(wanted)

    def is_source(self, text: str) -> bool:
        """As the step says."""
        return self.step.is_source(text, self.inputs[0].is_source)

    def time_columns(self) -> TimeColumns:
        """As the step says."""
        return self.step.time_columns(self.inputs[0].time_columns())

    def by_attribute(self, written: str, stream: ByAttribute) -> PlanNode:
        """By what the attribute was before the step."""
        return super().by_attribute(self.step.attribute_before(written), stream)

    @property
    def over_results(self) -> bool:
        """As the step says."""
        return self.step.makes_rows or super().over_results

    @property
    def passes_early_rows(self) -> bool:
        """Results of open windows are such rows."""
        return self.step.makes_rows or super().passes_early_rows

    def answers(self) -> list[AggregateNode]:
        """Those before it, if they are still answers."""
        return self.inputs[0].answers() if self.step.keeps_answers else []

    def whole_windows(self) -> PlanNode | None:
        """As the node before it."""
        below = self.inputs[0].whole_windows()
        step = replace(self.step, source=None) if isinstance(self.step, ResultsAsRows) else self.step
        return None if below is None else replace(self, inputs=(below,), step=step)

    def group_names(self, names: list[str]) -> list[str]:
        """As the step says."""
        return self.step.group_names(names)

    def carrying(self, names: Sequence[str], below: PlanNode) -> StepNode:
        """As the step says; early answers have their own columns behind."""
        schema, early = with_numbers(self.schema, names), self.early_schema
        if early is not None:
            early = pa.schema([*schema, *list(early)[len(self.schema) :]])
        return replace(self, inputs=(below,), step=self.step.carrying(names), schema=schema, early_schema=early)

    @property
    def reach(self) -> int:
        """As the step says."""
        return self.step.reach

    @property
    def compares_rows(self) -> bool:
        """As the step says."""
        return self.step.compares_rows or super().compares_rows

    def lifetime(self, missing: Callable[[], Exception]) -> int:
        """That of the rows before it."""
        return self.inputs[0].lifetime(missing)


@dataclass(frozen=True)
class StampNode(TimeOfInput, NeverEarly, PlanNode):
    """Gives rows of latent time the time of the clock (S3 section 5), before the first operator that needs one."""

    inputs: tuple[PlanNode, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns stay."""
        return self.inputs[0].schema

    def describe(self) -> str:
        """There is one clock."""
        return "stamp with the clock's time"

    def same_work(self) -> object:
        """There is one clock."""
        return "stamp"

    @property
    def latent(self) -> bool:
        """They have a time now."""
        return False


@dataclass(frozen=True)
class AggregateNode(TimeOfInput, PlanNode):
    """Aggregates rows by window and group; its results are answers."""

    end_lag: ClassVar[int] = 0
    """How many ticks the time of a result is before its `window_end`."""
    ends: ClassVar[bool] = True
    """Whether there are windows that end; else it answers only when it is asked."""
    ends_known: ClassVar[bool] = True
    """Whether it is known from the start when a window ends."""
    unknown_end: ClassVar[str] = ""
    """Why it is not."""
    not_compared: ClassVar[str] = (
        "each group has windows of its own, there is nothing to compare; write windows that all groups share, as "
        "in window('10 minutes')"
    )
    """Why its results are not compared with one another, where they are not."""
    inputs: tuple[PlanNode, ...]
    kernel: PaneKernel | RollingKernel
    schema: pa.Schema
    """Arrow schema of final results."""
    disorder: Disorder | None = None
    """The query's own policy, where it is not the stream's."""

    @abstractmethod
    def window_text(self) -> str:
        """The window in the user's words."""

    @property
    def early_schema(self) -> pa.Schema:
        """Final results have these columns except the last ones, which only early results have."""
        return early_schema(self.schema, self.kernel)

    def describe(self) -> str:
        """The window, the groups and the aggregates."""
        return self._text("" if self.disorder is None else f" disorder {self.disorder.describe()}")

    def kept_text(self, with_aggregates: bool = True) -> str:
        return self._text("", with_aggregates)

    def _text(self, policy: str, with_aggregates: bool = True) -> str:
        groups = named_columns((g.name, g.sql) for g in self.kernel.groups)
        by = f" group by {groups}" if groups else ""
        aggregates = named_columns((a.name, a.text) for a in self.kernel.aggregates) if with_aggregates else ""
        return f"window {self.window_text()}{policy}{by}\nagg {aggregates}"

    def wants(self, wanted: Wanted, late_rows: bool) -> Wanted:
        """Groups and arguments; all of a row that may go to a late sink."""
        if late_rows and not self.over_results:
            return None
        return [g.sql for g in self.kernel.groups] + [sql for a in self.kernel.aggregates for sql in a.reads]

    @property
    def latent(self) -> bool:
        """A result has a time."""
        return False

    def as_aggregate(self) -> AggregateNode:
        """Itself."""
        return self

    def answers(self) -> list[AggregateNode]:
        """Itself."""
        return [self]

    @property
    def gives_pairs(self) -> bool:
        """Its results say whether they are early."""
        return False

    @property
    def compares_rows(self) -> bool:
        """Only what comes after it matters."""
        return False

    def as_rows(self) -> PlanNode:
        """Its results as rows of another query. Results for each row stay answers."""
        return self

    def result_rows(self, columns: Columns, early: Columns | None = None) -> StepNode:
        """Some columns of its results as rows with a time."""
        schema = pa.schema([self.schema.field(name) for name, _ in columns])
        return StepNode((self,), ResultsAsRows(columns, early, self.kernel.source), schema)

    def as_window(self) -> WindowNode | None:
        """Itself, if its windows end at fixed times: then early answers can be asked for."""
        return None


@dataclass(frozen=True)
class WindowNode(AggregateNode):
    """Aggregates the rows of each window and group."""

    end_lag: ClassVar[int] = 1
    kernel: PaneKernel
    fill: Fill | None = None
    """The answers of windows in which a known group had no row; without it they have none."""
    corrections: Correction | None = None

    def describe(self) -> str:
        """The same, and for how long late rows correct final answers; without it these never change."""
        return super().describe() + ("" if self.corrections is None else f"\n{self.corrections.describe()}")

    def window_text(self) -> str:
        """Range, slide and offset."""
        spec, show = self.kernel.spec, self.domain.show_span
        offset = f" offset {show(spec.offset)}" if spec.offset else ""
        step = "step" if spec.first_end < spec.range else "slide"
        fill = "" if self.fill is None else f" {self.fill.describe(lambda windows: show(windows * spec.slide))}"
        return f"range {show(spec.range)} {step} {show(spec.slide)}{offset}{fill}"

    def time_columns(self) -> TimeColumns:
        """The time of a result is the last tick of its window."""
        spec, end = self.kernel.spec, self.end_lag
        return {WINDOW_START: (end - spec.range, end - min(spec.first_end, spec.range)), WINDOW_END: (end, end)}

    @property
    def closing_groups(self) -> tuple[Group, ...]:
        """What a row belongs to whose windows close together: its source, or what punctuations speak of."""
        if not isinstance(self.disorder, Punctuated) or self.disorder.by is None:
            return (Group(SOURCE, SOURCE),)
        sql = next(group.sql for group in self.kernel.groups if group.name == self.kernel.source)
        return (Group(SOURCE, f"coalesce(CAST({sql} AS STRING), '{NO_SOURCE}')"),)

    @property
    def reach(self) -> int:
        """The range of a window."""
        return self.kernel.spec.range

    def as_window(self) -> WindowNode:
        """Itself."""
        return self

    def whole_windows(self) -> WindowNode | None:
        """Without a source."""
        return replace(self, kernel=replace(self.kernel, source=None))

    def as_rows(self) -> StepNode:
        """Its results as rows of another query."""
        names = row_columns(self.kernel)
        aggregates = {a.name for a in self.kernel.aggregates}
        early = tuple((name, f"`{seen(name) if name in aggregates else name}`") for name in names)
        return self.result_rows(tuple((name, f"`{name}`") for name in names), early)
