"""The streams of prods of a session: each has a source whose pages ask the running queries for answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from slackwater.engine.build import source_label
from slackwater.engine.loop import Loop
from slackwater.errors import QueryError
from slackwater.operators.prod_stream import ProdRow, ProdStream
from slackwater.spark.api.catalogue import Declaration
from slackwater.spark.api.plays import Play
from slackwater.spark.api.prod_streams import Control, fitting
from slackwater.spark.api.run import Run
from slackwater.spark.ingest.replay import Replay

_log = logging.getLogger(__name__)


class Controls:
    """Prods of a live stream are for queries of live streams, those of a replay for queries of the same replay."""

    def __init__(self, loop: Loop, runs: Callable[[], Mapping[str, Run]]) -> None:
        """`runs` gives the queries at this instant: the executor's thread asks for them, too."""
        self._loop = loop
        self._runs = runs
        self._all: Mapping[str, tuple[Control, Declaration]] = {}
        """Replaced, never changed: other threads ask for figures."""
        self.owners: Mapping[str, str] = {}
        """The sources of prods by the names under which the executor has them. Replaced, never changed, too."""

    def declare(self, control: Control, declared: Declaration) -> None:
        """Add a stream of prods."""
        self._all = {**self._all, control.node.name: (control, declared)}
        self.attach(None)

    def refuse(self, stream: str) -> None:
        """Refuse a query over a stream of prods."""
        if stream in self._all:
            raise QueryError(f"stream {stream!r} is a stream of prods; a query reads a stream without role=")

    @property
    def live(self) -> dict[str, Declaration]:
        """Streams of prods that are not replayed."""
        return {name: declared for name, (_, declared) in self._all.items() if declared.replay is None}

    def sources(self, play: Play | None) -> dict[str, str]:
        """The sources of the prods of a play, or of live queries, by the names of the streams."""
        names = [name for name, (_, d) in self._all.items() if (d.replay is None) == (play is None)]
        return {name: name if play is None else play.name(name) for name in names}

    def replays(self, play: Play) -> list[Replay]:
        """What of prods is replayed with a play."""
        declared = [declared for _, declared in self._all.values()]
        return [replace(d.replay, node=play.source(d.node)) for d in declared if d.replay is not None]

    def attach(self, play: Play | None) -> None:
        """Let the streams of prods of a play, or of live queries, reach these."""
        for name, source in self.sources(play).items():
            control, label = self._all[name][0], source_label(source)
            if label in self._loop.executor.graph:
                continue

            def send(query: str | None, asked: ProdRow, control: Control = control) -> int:
                runs, executor = [r for r in self._runs().values() if r._play is play], self._loop.executor
                assert executor.pages is not None
                prods = fitting(control, runs, query, asked, executor.pages.backend)
                for prod in prods:
                    executor.prod(prod)
                return len(prods)

            operator = ProdStream(label, control.columns, send)
            owner = f"prods/{source}"
            while owner in self._runs() or owner in self.owners:
                owner += "'"
            self.owners = {**self.owners, owner: source}
            self._loop.interrupt(partial(self._add, operator, owner, play))

    def _add(self, operator: ProdStream, owner: str, play: Play | None) -> None:
        self._loop.executor.add(operator, query=owner, about="prods", clock=None if play is None else play.clock)

    def failed(self, owner: str, error: Exception) -> bool:
        """Whether what has failed is a stream of prods: it ends, and queries go on without it."""
        if owner in self.owners:
            _log.warning("the stream of prods %r has ended: %s", self.owners[owner], error)
        return owner in self.owners
