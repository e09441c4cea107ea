"""The label of an operator: which query or stream it was made for, and its role there."""

from __future__ import annotations

from typing import TypeAlias

#: Query, role, number and stream. JSON has a list of them.
LabelFields: TypeAlias = "tuple[str | None, str, int | None, str | None]"


class Label(str):
    """A value with fields. It is also the text that people read, which nobody takes apart.

    Roles are words of ours without a slash, and a stream's name has no slash. So labels with other fields are other
    texts, whatever a query is called.

    >>> Label("q1", "window", 2), Label.of_source("flights")
    ('q1/window2', 'source:flights')
    >>> label = Label("a/b #1", "late")
    >>> label.query, label.role, Label.from_json(label.to_json()) == label
    ('a/b #1', 'late', True)
    """

    query: str | None
    """The query that it was made for; None for a source, which all queries of a stream share."""
    role: str
    number: int | None
    """Of several operators with one role."""
    stream: str | None
    """Of a source."""

    def __new__(cls, query: str | None, role: str, number: int | None = None, stream: str | None = None) -> Label:
        """An operator of a query, or of none."""
        place = f"{role}{'' if number is None else number}"
        text = f"source:{stream}" if stream is not None else place if query is None else f"{query}/{place}"
        label = super().__new__(cls, text)
        label.query, label.role, label.number, label.stream = query, role, number, stream
        return label

    @classmethod
    def of_source(cls, stream: str) -> Label:
        """That of a stream's source."""
        return cls(None, "source", stream=stream)

    @classmethod
    def of(cls, text: str) -> Label:
        """A label as it is; any other text is the role of an operator that belongs to no query."""
        return text if isinstance(text, Label) else cls(None, text)

    @property
    def place(self) -> str:
        """Its role and number, which name it in its query."""
        return f"{self.role}{'' if self.number is None else self.number}"

    def to_json(self) -> LabelFields:
        """Its fields."""
        return self.query, self.role, self.number, self.stream

    @classmethod
    def from_json(cls, fields: LabelFields) -> Label:
        """What `to_json` gave."""
        return cls(*fields)

    def __getnewargs__(self) -> LabelFields:  # type: ignore[override]  # a str's are one text
        """For copies."""
        return self.to_json()
