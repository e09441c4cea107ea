"""A name for the same rows by another windowing attribute than the stream's time (S4's WATTR)."""

from __future__ import annotations

import re
from zlib import crc32


def apart(stream: str, written: str, settings: str) -> str:
    """A name for the second stream, the same in every session that asks for the same.

    >>> apart("services", "orderID", "CAST(orderID AS BIGINT) bounded(5)")
    'services.orderID.d03f96f8'
    """
    return f"{stream}.{re.sub(r'[^A-Za-z0-9_]+', '_', written)}.{crc32(settings.encode()):08x}"
