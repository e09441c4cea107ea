"""What a restart may change of a query: what it keeps must still mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slackwater.plan.node import PlanNode


@dataclass(frozen=True)
class Keeps:
    """What the kept rows and partial results of a plan depend on, as text."""

    core: str
    """The plan without the steps above what is kept, the policies, and the aggregates of the topmost window."""
    aggregates: Mapping[str, str]
    """Those of the topmost window, by name; none if another kind of node is at the top."""

    def to_json(self) -> dict[str, Any]:
        return {"core": self.core, "aggregates": dict(self.aggregates)}

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Keeps:
        return Keeps(fields["core"], fields["aggregates"])


#: Of a query that keeps nothing.
KEEPS_NOTHING = Keeps("", {})


@dataclass(frozen=True)
class Change:
    """How a query differs from the one of its name in the journal."""

    begun: tuple[str, ...] = ()
    """Aggregates that count from now on."""
    gone: tuple[str, ...] = ()
    """Aggregates that it has no more."""

    def describe(self) -> str:
        """In words."""
        anew = ", ".join(self.begun)
        parts = [f"{anew} count{'s' if len(self.begun) == 1 else ''} from now on"] if anew else []
        parts += [f"{', '.join(self.gone)} dropped"] if self.gone else []
        return "; ".join(parts) or "it keeps all that it has"


def kept_by(plan: PlanNode) -> Keeps:
    """What a plan keeps over a restart."""
    top = plan
    while top.keeps_nothing:
        (top,) = top.inputs
    aggregate = top.as_aggregate()
    window = None if aggregate is None else aggregate.as_window()
    if window is None:
        return Keeps(_text(top), {})
    aggregates = {a.name: f"{a.text} [{a.partials()}]" for a in window.kernel.aggregates}
    return Keeps(_text(top, window.kept_text(with_aggregates=False)), aggregates)


def compare(before: Keeps, now: Keeps) -> Change | None:
    """What begins anew; None if what was kept cannot be used."""
    if before.core != now.core:
        return None
    begun = [name for name, text in now.aggregates.items() if text not in before.aggregates.values()]
    gone = [name for name, text in before.aggregates.items() if text not in now.aggregates.values()]
    return Change(tuple(begun), tuple(gone))


def _text(node: PlanNode, own: str | None = None) -> str:
    lines = [_text(below) for below in node.inputs]
    return "\n".join([*lines, node.kept_text() if own is None else own])
