"""Names of the hidden columns that several rooms read and write. The columns of a user never begin with `__`."""

from __future__ import annotations

#: The application time of a row, in ticks.
TIME = "__time"
#: The source of a row, as text.
SOURCE = "__source"
#: What rows without a source are called.
NO_SOURCE = "null"
#: The punctuation that a row carries, in ticks.
PUNCTUATION = "__punctuation"

#: The number of a pane, and of a window.
PANE, WINDOW = "__pane", "__window"
#: How many rows a partial is made of.
ROWS = "__rows"
#: The last window that has been emitted for a source.
CLOSED = "__closed"
#: Limits by source, in ticks.
BEFORE = "__before"

#: Of spilled rows: their stretch of time, and their place in the page.
CELL, PLACE = "__cell", "__place"
