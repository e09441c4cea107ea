"""The operators that several queries share: equal parts of their plans are one operator."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from slackwater.engine.graph import Feed
from slackwater.operators.label import Label
from slackwater.operators.shared_fold import SharedFold
from slackwater.plan.join_node import JoinNode


@dataclass
class SharedOperators:
    """What running queries share."""

    labels: dict[tuple[object, ...], Label] = field(default_factory=dict)
    """Label of the operator for a plan node behind a port of its source."""
    joins: dict[str, JoinNode] = field(default_factory=dict)
    """Each join with the columns that its queries ask for, by label."""
    folds: dict[Feed, SharedFold] = field(default_factory=dict)
    """What folds the pages of an arc."""

    def forget(self, labels: Set[str]) -> None:
        """These operators are gone."""
        self.labels = {part: label for part, label in self.labels.items() if label not in labels}
        self.joins = {label: node for label, node in self.joins.items() if label not in labels}
        self.folds = {feed: fold for feed, fold in self.folds.items() if feed[0] not in labels}
