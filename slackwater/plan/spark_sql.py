"""Spark's SQL as sqlglot reads it, for texts that are not sent to Spark before they are understood."""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.spark import Spark


class SparkSQL(Spark):
    """Spark 4's SQL."""

    class Tokenizer(Spark.Tokenizer):
        """Words and symbols."""

        STRING_ESCAPES: ClassVar = ["\\", "'", '"']  # a quote may be doubled since Spark 4.0
        COMMANDS: ClassVar = set()  # SHOW and others are ordinary words; sqlglot would skip what follows
