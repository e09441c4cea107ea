"""The fixed delay as other engines write it, and what each of them would have lost with it."""

from __future__ import annotations

from slackwater.columns import backticked
from slackwater.tune.durations import write

#: Engines by their name in a report, with the name that a person reads.
ENGINES = {
    "slackwater": "Slackwater",
    "native": "native Spark",
    "flink": "Flink SQL",
    "ksqldb": "ksqlDB",
    "risingwave": "RisingWave",
}
#: Units of an INTERVAL in SQL, in microseconds: the longest that the delay is a whole number of.
_UNITS = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000))


def sql_lines(time: str, window: tuple[int, int], delay: int) -> dict[str, str]:
    """The lines of engines that are written in SQL.

    >>> for line in sql_lines("sent", (60_000_000, 60_000_000), 1_500_000).values(): print(line)
    WATERMARK FOR `sent` AS `sent` - INTERVAL '1.5' SECOND
    WINDOW TUMBLING (SIZE 60 SECONDS, GRACE PERIOD 1500 MILLISECONDS)
    WATERMARK FOR "sent" AS "sent" - INTERVAL '1500 milliseconds'
    """
    quoted = time.replace('"', '""')
    name = f"`{time.replace('`', '``')}`"
    length, slide = (_ksql(span) for span in window)
    kind = f"TUMBLING (SIZE {length}" if length == slide else f"HOPPING (SIZE {length}, ADVANCE BY {slide}"
    return {
        "flink": f"WATERMARK FOR {name} AS {name} - INTERVAL {_interval(delay)}",
        "ksqldb": f"WINDOW {kind}, GRACE PERIOD {_ksql(delay)})",
        "risingwave": f'WATERMARK FOR "{quoted}" AS "{quoted}" - INTERVAL \'{_ksql(delay).lower()}\'',
    }


def believed(time: str, arrival: str, ahead: int) -> str:
    """The condition that keeps rows whose time is not far ahead of arrival."""
    return f"{backticked(time)} <= {backticked(arrival)} + INTERVAL {write(ahead)}"


def _interval(span: int) -> str:
    unit, length = next(((u, n) for u, n in _UNITS if span and span % n == 0), _UNITS[-1])
    return f"'{span / length:g}' {unit}"


def _ksql(span: int) -> str:
    # ksqlDB counts in whole units, from milliseconds on; a delay is rounded up, so that it loses no more.
    return f"{span // 1_000_000} SECONDS" if span % 1_000_000 == 0 else f"{-(-span // 1_000)} MILLISECONDS"
