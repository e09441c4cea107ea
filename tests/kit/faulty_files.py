"""A file system with faults: it refuses, is full, or has lost, cut or changed what was written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyarrow import fs


class _Limited:
    """An output stream that refuses bytes beyond what the disk has left."""

    def __init__(self, stream: Any, files: FaultyFiles, path: str) -> None:
        self._stream, self._files, self._path = stream, files, path

    def __enter__(self) -> _Limited:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stream.close()
        self._files.after("write", self._path)

    def write(self, data: bytes) -> None:
        left = self._files.left
        if left is not None and len(data) > left:
            self._stream.write(data[:left])
            self._files.left = 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._stream.write(data)
        self._files.left = None if left is None else left - len(data)


class FaultyFiles:
    """The local file system without locks and forcing, as an object store; acts on some paths fail."""

    def __init__(self) -> None:
        self._files = fs.LocalFileSystem()
        self._refused: list[tuple[str, str, int]] = []
        self.left: int | None = None
        """Bytes that the disk still takes; None if there is no limit."""
        self.after: Callable[[str, str], None] = lambda act, path: None
        """Called after each act with its name and the path."""

    def refuse(self, act: str, part: str, number: int = errno.EACCES) -> None:
        """From now on an act fails on paths that contain `part`, with this error number."""
        self._refused.append((act, part, number))

    def _check(self, act: str, path: str) -> None:
        for refused, part, number in self._refused:
            if refused == act and part in path:
                raise OSError(number, os.strerror(number), path)

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._files, name)

        def checked(*args: Any, **kwargs: Any) -> Any:
            path = args[0] if isinstance(args[0], str) else args[0].base_dir
            self._check(name, path)
            result = act(*args, **kwargs)
            self.after(name, path)
            return result

        return checked

    def open_output_stream(self, path: str) -> _Limited:
        self._check("open_output_stream", path)
        return _Limited(self._files.open_output_stream(path), self, path)


def newest(folder: Path) -> Path:
    """The newest file of a folder, by its name."""
    return max(folder.iterdir())


def flip(data: bytes, bit: int) -> bytes:
    """The same bytes but for one bit."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
