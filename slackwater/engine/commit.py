"""The commit: journal what has changed, write the sinks, mark it done. Two halves: a crash loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slackwater.engine.admission import Admission
from slackwater.engine.backlog import Backlog
from slackwater.engine.feedback import Feedback
from slackwater.engine.graph import Graph, Node
from slackwater.engine.journal import Emission, Journal, Record, Recovered
from slackwater.errors import RunError
from slackwater.operators.page import Pages
from slackwater.operators.payload import Staged
from slackwater.operators.sink import Sink
from slackwater.progress.punctuation import Punctuation


class Commits:
    """Writes records, and finds again what an earlier process had written."""

    def __init__(self, graph: Graph, journal: Journal, pages: Pages | None, backlog: Backlog) -> None:
        self._graph = graph
        self.journal = journal
        self._backlog = backlog
        self._recovered = journal.recover()
        records = self._recovered.records
        self._step = records[-1].step if records else 0
        self._redo = [] if self._recovered.committed else list(records[-1].emissions)
        """Rows that a crash left between the two halves of a commit."""
        self._everything = False
        self.feedback = Feedback()
        if pages is not None:
            last = records[-1] if records else Record(0, whole=True)
            staged = [e.payload.location for e in last.emissions if isinstance(e.payload, Staged)]
            pages.sweep(last.queues, staged, last.consumed)

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

    def since(self, label: str) -> int | None:
        """Since which admission an operator has been there; None for one that is new."""
        times = self._recovered.records[-1].times if self._recovered.records else {}
        return times[label]["since"] if label in times else None

    def restore(self, node: Node) -> None:
        """Give a new node what the journal knows of it."""
        label, records = node.label, self._recovered.records
        states = _states_of(self._recovered, label)
        if states:
            node.operator.restore(states)
        if not records:
            return
        times = records[-1].times.get(label, {"registers": [], "said": {}})
        node.times.update({port: Punctuation.load(time) for port, time in times["said"].items()})
        for queue, time in zip(node.inputs, times["registers"], strict=False):
            queue.time = Punctuation.load(time)
        for n, queue in enumerate(node.inputs):
            for saved in records[-1].queues.get(f"{label}#{n}", ()):
                queue.push(self._backlog.revive(saved))

    def begin(self) -> None:
        """Something new comes: what waits in the journal for a query that is back must have found its arc."""
        self.check_written()
        queues = self._recovered.records[-1].queues if self._recovered.records else {}
        present = {label.partition("/")[0] for label in self._graph.nodes}
        for arc in queues:
            label = arc.rpartition("#")[0]
            if label not in self._graph and "/" in label and label.partition("/")[0] in present:
                raise RunError(
                    f"the journal holds pages that wait for {label}, which this query does not have; "
                    "start it as it was"
                )
        self._recovered = Recovered()

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
        for emission in mine:
            self._write(emission)
        self._redo = [e for e in self._redo if e.sink != sink.label]
        if mine and not self._redo:
            self.journal.commit(self._recovered.records[-1])

    def forget(self, prefix: str) -> None:
        """Rows that a crash has left for operators of these labels are not wanted any more."""
        left = [e for e in self._redo if not e.sink.startswith(prefix)]
        if self._redo and not left:
            self.journal.commit(self._recovered.records[-1])
        self._redo = left

    # --- the commit

    def changed(self) -> None:
        """Operators have gone: the next record is a whole one."""
        self._everything = True

    def commit(self, admission: Admission, settled: Callable[[], None]) -> None:
        """Both halves; `settled` is called when all is durable and out."""
        record = self._record(admission)
        self.journal.prepare(record)
        for emission in record.emissions:
            self._write(emission)
        self.journal.commit(record)
        for node in self._graph:
            node.operator.settle()
        settled()

    def _write(self, emission: Emission) -> None:
        sink = self._graph.nodes[emission.sink].operator
        assert isinstance(sink, Sink)
        asked = sink.to.write(emission.payload, emission.commit_id)
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
        whole = self._everything or self.journal.wants_whole()
        self._everything = False
        queues = self._backlog.record()
        states = {n.label: s for n in self._graph if (s := n.operator.state(whole)) is not None}
        times = {n.label: _times_of(n) for n in self._graph}
        consumed = dict(admission.consumed)
        return Record(self._step, whole, consumed, states, queues, times, admission.number, emissions)


def _times_of(node: Node) -> dict[str, Any]:
    """A node's registers and what it has said, as JSON values."""
    return {
        "registers": [time.saved() for time in node.registers],
        "said": {port: time.saved() for port, time in node.times.items()},
        "since": node.since,
    }


def _states_of(recovered: Recovered, label: str) -> list[Any]:
    states = [r.states[label] for r in recovered.records if label in r.states]
    for n in range(len(states) - 1, -1, -1):
        if states[n].whole:
            return states[n:]
    return states
