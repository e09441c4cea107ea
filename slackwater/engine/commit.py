"""The commit: journal what has changed, write the sinks, mark it done. Two halves: a crash loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace

from slackwater.engine.admission import Admission
from slackwater.engine.backlog import Backlog
from slackwater.engine.feedback import Feedback
from slackwater.engine.graph import Graph, Node
from slackwater.engine.journal import Emission, Journal, Record, Recovery, SavedTimes
from slackwater.errors import RunError
from slackwater.operators.label import Label
from slackwater.operators.operator import State
from slackwater.operators.payload import Staged
from slackwater.operators.sink import Sink
from slackwater.progress.punctuation import Punctuation


@dataclass
class Refusal:
    """Emissions that the sinks of a query did not accept, and the error."""

    error: Exception
    unwritten: list[Emission] = field(default_factory=list)


class Commits:
    """Writes records, and finds again what an earlier process had written."""

    def __init__(self, graph: Graph, journal: Journal, backlog: Backlog) -> None:
        self._graph = graph
        self.journal = journal
        self._backlog = backlog
        self._recovered = journal.recover()
        records = self._recovered.records
        self._step = records[-1].step if records else 0
        self._redo = [] if self._recovered.committed else list(records[-1].emissions)
        """Rows that a crash left between the two halves of a commit."""
        self._aside = list(records[0].aside) if records else []
        self._redo += [emission for kept in self._aside for emission in kept.emissions]
        self._everything = False
        self.feedback = Feedback()
        self.on_refused: Callable[[dict[str, Refusal]], None] | None = None
        """Called with the sinks that could not be written; without it their error is raised."""
        backlog.sweep(records[-1] if records else Record(0, whole=True), self._aside)

    # --- what an earlier process had written

    def consumed(self) -> dict[str, int]:
        """Number of the last page that each source has taken for good."""
        taken: dict[str, int] = {}
        for record in self._recovered.records:
            taken.update(record.consumed)
        return taken

    @property
    def admission(self) -> int:
        """Number of the last admission."""
        return self._recovered.records[-1].admission if self._recovered.records else 0

    def since(self, label: Label) -> int | None:
        """Since which admission an operator has been there; None for one that is new."""
        last = self._last_of(label)
        return None if last is None else last.times[label]["since"]

    def _last_of(self, label: Label) -> Record | None:
        """The last record that speaks of an operator's times and queues."""
        known = [*self._aside, *self._recovered.records[-1:]]
        return next((record for record in reversed(known) if label in record.times), None)

    def restore(self, node: Node) -> None:
        """Give a new node what the journal knows of it."""
        label, last = node.label, self._last_of(node.label)
        states = _states_of([*self._aside, *self._recovered.records], label)
        if states:
            node.operator.restore(states)
        if last is None:
            return
        times = last.times[label]
        node.times.update({port: Punctuation.load(time) for port, time in times["said"].items()})
        for queue, time in zip(node.inputs, times["registers"], strict=False):
            queue.time = Punctuation.load(time)
        for n, queue in enumerate(node.inputs):
            for saved in last.queues.get((label, n), ()):
                queue.push(entry := self._backlog.revive(saved))
                if entry.source is not None and not node.is_source:
                    self._graph.nodes[entry.source].operator.on_restored_page(entry.page)

    def begin(self) -> None:
        """Something new comes: what waits in the journal for a query that is back must have found its arc."""
        self.check_written()
        queues = self._recovered.records[-1].queues if self._recovered.records else {}
        present = {node.label.query for node in self._graph} - {None}
        for label, place in queues:
            gone = label not in self._graph or place >= len(self._graph.nodes[label].inputs)
            if gone and label.query in present:
                raise RunError(
                    f"the journal holds pages that wait for {label}, which this query does not have; "
                    "start it as it was"
                )
        self._recovered = Recovery()

    @property
    def unwritten(self) -> bool:
        """Whether the journal holds rows of a query that has not been added again."""
        return bool(self._redo)

    def check_written(self) -> None:
        """Refuse to go on while that is so."""
        if self._redo:
            missing = ", ".join(sorted({e.sink for e in self._redo}))
            raise RunError(
                f"the journal holds results for {missing}; start that query again first, with the sinks it had"
            )

    def finish(self, sink: Sink) -> None:
        """Write what a crash left for a sink that is back."""
        mine = [e for e in self._redo if e.sink == sink.label]
        if mine:
            self.journal.check_owner()
        for emission in mine:
            self._write(emission)
        self._wrote([e for e in self._redo if e.sink != sink.label])

    def _wrote(self, left: list[Emission]) -> None:
        if self._redo and not left and not self._recovered.committed:
            self.journal.commit(self._recovered.records[-1])
        self._redo = left

    def forget(self, over: Callable[[str], bool], shared: Set[str]) -> None:
        """What the journal holds for some queries, by their names, is not wanted any more.

        But the parts that they share with others are.
        """
        self._wrote([e for e in self._redo if not over(_query_of(e.sink))])
        known = {label for record in (*self._aside, *self._recovered.records) for label in record.labels}
        gone = {label for label in known - shared if label.query is not None and over(label.query)}
        self._keep_aside(known - gone)
        self._not_restored(gone)

    def _not_restored(self, labels: Set[str]) -> None:
        """Operators that come under these labels are new."""
        self._recovered.records = [record.without(labels) for record in self._recovered.records]

    # --- queries that have been taken out, and may come back

    def set_aside(self, labels: Set[str], sources: Sequence[str], unwritten: Sequence[Emission]) -> dict[str, int]:
        """Keep what the journal says of these operators; gives the pages at which it has their sources."""
        records = self.journal.read()
        parts = [replace(record.part(labels), queues={}, times={}, emissions=[]) for record in records]
        if records:
            last = records[-1].part(labels)
            parts[-1] = replace(parts[-1], queues=last.queues, times=last.times, emissions=list(unwritten))
        self._aside += parts
        self.changed()
        consumed = records[-1].consumed if records else {}
        return {source: consumed[source] for source in sources if source in consumed}

    def _keep_aside(self, labels: Set[str]) -> None:
        """Of what is set aside, keep only what is said of these operators."""
        if any(kept.labels - labels for kept in self._aside):
            self._aside = [part for kept in self._aside if (part := kept.part(labels)).labels]
            self.changed()

    # --- the commit

    def took_out(self, labels: Set[str]) -> None:
        """Operators have gone for good, and what the journal held for them."""
        self._not_restored(labels)
        self.changed()

    def changed(self) -> None:
        """The next record is a whole one."""
        self._everything = True

    def commit(self, admission: Admission, settled: Callable[[], None]) -> None:
        """Both halves; `settled` is called when all is durable and out."""
        records = [self._record(admission)]
        self.journal.prepare(records[0])
        refused = self._write_all(records[0].emissions)
        if refused:
            assert self.on_refused is not None
            self.on_refused(refused)
            # What could not be written is kept by a record of its own, before the one that promised it is done.
            records.append(self._record(admission))
            self.journal.prepare(records[1])
        for record in records:
            self.journal.commit(record)
        unwritten = {id(emission) for of in refused.values() for emission in of.unwritten}
        for emission in records[0].emissions:
            if isinstance(emission.payload, Staged) and id(emission) not in unwritten:
                self._backlog.written(emission.payload.location)
        for node in self._graph:
            node.operator.settle()
        settled()

    def _write_all(self, emissions: Sequence[Emission]) -> dict[str, Refusal]:
        """Write all emissions. Return what failing sinks did not accept, by query.

        After a failure, later rows of that query are not written.
        """
        refused: dict[str, Refusal] = {}
        for emission in emissions:
            query = _query_of(emission.sink)
            try:
                if query not in refused:
                    self._write(emission)
                    continue
            except Exception as error:
                if self.on_refused is None:
                    raise
                refused[query] = Refusal(error)
            refused[query].unwritten.append(emission)
        return refused

    def _write(self, emission: Emission) -> None:
        sink = self._graph.nodes[emission.sink].operator
        assert isinstance(sink, Sink)
        asked = sink.write(emission.payload, emission.commit_id)
        if asked is not None:
            self.feedback.ask(emission, asked)

    def _record(self, admission: Admission) -> Record:
        emissions = [
            Emission(node.label, commit_id, payload, early)
            for node in self._graph
            if isinstance(node.operator, Sink)
            for commit_id, payload, early in node.operator.take()
        ]
        if not self.journal.durable:
            return Record(self._step, False, emissions=emissions)
        self._step += 1
        self._keep_aside({label for kept in self._aside for label in kept.labels if label not in self._graph})
        whole = self._everything or self.journal.wants_whole()
        self._everything = False
        queues = self._backlog.record()
        states = {n.label: s for n in self._graph if (s := n.operator.state(whole)) is not None}
        times = {n.label: _times_of(n) for n in self._graph}
        consumed = dict(admission.consumed)
        aside = list(self._aside) if whole else []
        return Record(self._step, whole, consumed, states, queues, times, admission.number, emissions, aside)


def _query_of(sink: Label) -> str:
    """The query that a sink was made for."""
    return sink.query or sink


def _times_of(node: Node) -> SavedTimes:
    """A node's registers and what it has said, as JSON values."""
    return {
        "registers": [time.saved() for time in node.registers],
        "said": {port: time.saved() for port, time in node.times.items()},
        "since": node.since,
    }


def _states_of(records: Sequence[Record], label: Label) -> list[State]:
    states = [r.states[label] for r in records if label in r.states]
    for n in range(len(states) - 1, -1, -1):
        if states[n].whole:
            return states[n:]
    return states
