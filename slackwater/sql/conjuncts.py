"""The conditions that a WHERE puts together with AND."""

from __future__ import annotations

from slackwater.sql.expression import Expression

_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")


def conjuncts(condition: Expression) -> list[Expression]:
    """The parts between the ANDs outside of parentheses; the whole condition if there is an OR outside of them.

    >>> from slackwater.sql.source import SqlText
    >>> source = SqlText("a = b AND c BETWEEN 1 AND 2 AND (d OR e)")
    >>> [part.text for part in conjuncts(Expression(source, tuple(source.tokens)))]
    ['a = b', 'c BETWEEN 1 AND 2', '(d OR e)']
    """
    ends, depth, between = list[int](), 0, 0
    for n, token in enumerate(condition.tokens):
        raw, word = condition.source.raw(token), condition.source.word(token)
        depth += (raw in _OPEN or word == "CASE") - (raw in _CLOSE or word == "END")
        if depth:
            continue
        if word == "OR":
            return [condition]
        if word == "BETWEEN":
            between += 1
        elif word == "AND" and between:
            between -= 1
        elif word == "AND":
            ends.append(n)
    cuts = list(zip([0, *(n + 1 for n in ends)], [*ends, len(condition.tokens)], strict=True))
    if any(at == end for at, end in cuts):  # nothing beside an AND: the whole condition shows what is wrong
        return [condition]
    return [condition.part(at, end) for at, end in cuts]
