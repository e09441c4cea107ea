"""The content of the page, as sections of JSON; each is sent only when it has changed."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from slackwater.dashboard.hold import hold
from slackwater.dashboard.rates import Rates
from slackwater.dashboard.rows_shown import rows_shown
from slackwater.dashboard.watched import Watched, WatchedQuery
from slackwater.engine.figures import engine_figures
from slackwater.engine.records import Snapshot
from slackwater.operators.label import Label
from slackwater.operators.newest_rows import NEWEST
from slackwater.operators.recent_answers import NO_ANSWERS, RECENT
from slackwater.plan.boxes import Box
from slackwater.plan.svg import layers

#: Seconds between two questions to Spark for the status of a query.
_STATUS_EVERY = 1.0
#: Seconds between two tables of operators: it is the longest section, and its rates are those of ten seconds.
_OPERATORS_EVERY = 0.25
#: Figures of a query that have a section of their own, are shown with its streams, or are not shown.
_APART = frozenset(
    (
        *("operators", "streams", "lateness", "lateness_shares"),
        *("policy", "disorder", "held_back_by", "lost_by_window", "choices"),
    )
)
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
#: Digits of a rate.
_FINE = 4
_RATES = {"rows_in": "rows_in_rate", "rows_out": "rows_out_rate", "runs": "runs_rate", "run_seconds": "busy"}
#: Figures of an operator that are shown as they were published.
_PUBLISHED = (
    *(
        "queued",
        "queued_rows",
        "held",
        "idle_waiting",
        "rows_in",
        "rows_out",
        "runs",
        "last_run",
        "cost",
        "selectivity",
    ),
)


class Board:
    """Collects the sections from published figures. One thread at a time."""

    def __init__(self, watched: Watched, clock: Callable[[], float] = time.monotonic) -> None:
        self._watched = watched
        self._clock = clock
        self._rates = Rates()
        self._status: dict[str, tuple[float, str, str]] = {}
        self._answers: dict[str, tuple[object, object, bytes]] = {}
        """The latest answers and rows of each query as they were published, and their text."""
        self._spark_ui = watched.spark_ui
        self._topology: tuple[object, bytes] = (None, b"")
        self._table: tuple[float, bytes, bytes] = (-math.inf, b"", b"")
        """When the table of operators was made, of which graph, and its text."""

    def sections(self, whole: bool = True) -> dict[str, bytes]:
        """All sections by name; those that may be less often made are as they were a moment ago, unless `whole`."""
        snapshot, now = self._watched.history.latest, self._clock()
        self._rates.look(now, snapshot.operators)
        queries = list(self._watched.queries())
        figures = {query.name: query.metrics() for query in queries}
        waits = waits_for(snapshot)
        sections = {
            "session": _text(self._session(snapshot, figures)),
            "graph": (graph := self._graph(snapshot)),
            "operators": self._table[2],
            "streams": _text(_streams(figures)),
            "queries": _text([self._query(q, figures[q.name], waits, now) for q in queries]),
        }
        if whole or now - self._table[0] >= _OPERATORS_EVERY or self._table[1] is not graph:
            self._table = now, graph, _text(self._operators(snapshot, figures, waits))
            sections["operators"] = self._table[2]
        return sections | self._recent(queries, snapshot)

    def _session(self, snapshot: Snapshot, figures: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        last = next(iter(figures.values()), {})
        operators = snapshot.operators
        sources = [label for label, own in operators.items() if not own["feeds"] and "pages" in own]
        return {
            "at": snapshot.at,
            "paused": self._watched.paused,
            "strategy": snapshot.strategy,
            "level": next((own["level"] for own in operators.values()), ""),
            "rows_rate": round(sum(self._rates.of(label)["rows_in"] for label in sources), _FINE),
            "memory": sum(map(memory, operators.values())),
            "queued": sum(own["queued"] for own in operators.values()),
            "spark_jobs": last.get("spark_jobs"),
            "spark_seconds": last.get("spark_seconds"),
            "held_bytes": last.get("memory_bytes"),
            "spool_bytes": last.get("spool_bytes"),
            "journal_bytes": snapshot.journal_bytes,
            "spark_ui": self._spark_ui,
        }

    def _graph(self, snapshot: Snapshot) -> bytes:
        """The operators and the arcs between them, in layers; the same text as long as none comes or goes."""
        operators = {label: engine_figures(published) for label, published in snapshot.operators.items()}
        key = [(label, own["feeds"], own["queries"], own["about"]) for label, own in operators.items()]
        if key != self._topology[0]:
            boxes = [Box(label, (about,), tuple(feeds)) for label, feeds, _, about in key]
            rows = [[box.label for box in layer] for layer in layers(boxes)]
            nodes = {label: {"feeds": feeds, "queries": queries, "about": a} for label, feeds, queries, a in key}
            self._topology = key, _text({"layers": rows, "nodes": nodes})
        return self._topology[1]

    def _operators(
        self, snapshot: Snapshot, figures: Mapping[str, Mapping[str, Any]], waits: Mapping[str, str]
    ) -> dict[str, Any]:
        by_label: dict[str, dict[str, Any]] = {}
        for query in figures.values():
            by_label |= query.get("operators", {})
        table: dict[str, Any] = {}
        for label, published in snapshot.operators.items():
            shown = by_label.get(label, {})
            row = {"heartbeat": shown.get("heartbeat"), "lag_seconds": shown.get("lag_seconds")}
            for name in _PUBLISHED:
                row[name] = published[name]
            rates = self._rates.of(label)
            for name, rate in _RATES.items():
                row[rate] = round(rates[name], _FINE)
            row["memory"], row["waits_for"] = memory(published), waits[label]
            table[label] = row
        return table

    def _query(
        self, query: WatchedQuery, figures: Mapping[str, Any], waits: Mapping[str, str], now: float
    ) -> dict[str, Any]:
        last, status, failure = self._status.get(query.name, (-math.inf, "", ""))
        if now - last >= _STATUS_EVERY:
            status, failure = query.status, query.failure
            self._status[query.name] = now, status, failure
        tops = query.plan.prodded()
        source = waits.get(Label(query.name, "sink"), "")
        streams = figures.get("streams", {})
        waited = next((name for name in streams if Label.of_source(name) == source), next(iter(streams), ""))
        return {
            "name": query.name,
            "status": status,
            "failure": failure,
            "active": query.active,
            "can_prod": bool(tops) and query.active,
            "groups": list(tops[0].kernel.keys) if len(tops) == 1 else [],
            "waits_for": source,
            "holds": hold(status, self._watched.paused, waited, streams.get(waited, {})),
            "streams": list(streams),
            "figures": {name: value for name, value in figures.items() if name not in _APART},
        }

    def _recent(self, queries: list[WatchedQuery], snapshot: Snapshot) -> dict[str, bytes]:
        """The latest rows of each query; those of a stopped one stay. Made into text when others have come."""
        for query in queries:
            sink: Mapping[str, Any] = snapshot.of(Label(query.name, "sink"))
            recent, latest = sink.get(RECENT), sink.get(NEWEST)
            known = self._answers.get(query.name)
            if latest is not None and (known is None or known[0] is not recent or known[1] is not latest):
                shown = {"query": query.name, **(recent or NO_ANSWERS), **rows_shown(latest)}
                self._answers[query.name] = recent, latest, _text(shown)
        return {f"answers/{name}": text for name, (*_, text) in self._answers.items()}


def memory(figures: Mapping[str, Any]) -> int:
    """Bytes that an operator holds, and that wait before it."""
    return int(figures.get("state_bytes", 0)) + int(figures["queued_bytes"])


def waits_for(snapshot: Snapshot) -> dict[str, str]:
    """The source that each operator waits for: back along the input with the lowest time, again and again.

    Operators are published after those that feed them, so what these wait for has been found.
    """
    sources: dict[str, str] = {}
    for label, published in snapshot.operators.items():
        own = engine_figures(published)
        feeds, registers = own["feeds"], own["registers"]
        lowest = registers.index(min(registers)) if len(registers) > 1 else 0
        before = feeds[min(lowest, len(feeds) - 1)] if feeds else label
        sources[label] = sources.get(before, before)
    return sources


def _streams(figures: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each stream by each policy of a query over it, once."""
    by_policy: dict[tuple[str, str], dict[str, Any]] = {}
    for query, metrics in figures.items():
        for name, stream in metrics.get("streams", {}).items():
            entry = by_policy.setdefault((name, stream["disorder"]), {"name": name, "queries": [], **stream})
            entry["queries"].append(query)
    return list(by_policy.values())


def _text(value: Any) -> bytes:
    """As JSON; a number that JSON does not know becomes null."""
    try:
        return orjson.dumps(value, default=_other, option=_OPTIONS)
    except TypeError:  # a number of more than 64 bits, or half a character
        return json.dumps(_plain(value), default=str, allow_nan=False, separators=(",", ":")).encode()


def _other(value: Any) -> Any:
    """What orjson does not know: a named tuple becomes a list, all else becomes text."""
    return list(value) if isinstance(value, tuple) else str(value)


def _plain(value: Any) -> Any:
    """Without numbers that JSON does not know."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
