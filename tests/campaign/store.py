"""A file system in memory for the journal, with faults: it refuses, is slow, damages files, or the process dies."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable
from random import Random
from types import TracebackType

from pyarrow import fs


class Died(BaseException):
    """The process is gone. No handler of the engine may notice."""


class Fate:
    """Counts what a process does to files and sinks. Something happens at one of these points, or nothing does."""

    def __init__(self) -> None:
        self.count = 0
        """Points so far."""
        self.left: int | None = None
        """Points until it happens; None for never."""
        self.happens: Callable[[], None] = lambda: None
        self.each: Callable[[], None] = lambda: None
        """Called at each point, as a slow store does."""

    def after(self, points: int, happens: Callable[[], None]) -> None:
        """Have something happen once, at the n-th point from now."""
        self.left, self.happens = points, happens

    def point(self) -> None:
        """A point at which the process touches the outside."""
        self.count += 1
        self.each()
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                self.left = None
                self.happens()


def die() -> None:
    """End the process here."""
    raise Died


def refuse() -> None:
    """The store answers with an error."""
    raise OSError(errno.EIO, "the store does not answer")


class Store:
    """What outlives a process: the files of its journal."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        """What a file holds; another session may have deleted it."""
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def damage(self, chance: Random) -> str | None:
        """Lose, cut or change a file; says which, None if there is none."""
        if not self.files:
            return None
        path = chance.choice(sorted(self.files))
        data, how = self.files[path], chance.choice(("lost", "cut", "changed"))
        if how == "lost" or not data:
            del self.files[path]
            return f"{path} lost"
        at = chance.randrange(len(data))
        self.files[path] = data[:at] if how == "cut" else data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        return f"{path} {how}"


class _Output(io.RawIOBase):
    def __init__(self, store: Store, fate: Fate, path: str) -> None:
        self._store, self._fate, self._path = store, fate, path
        store.files[path] = b""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Half of it, then the rest: the process may die between."""
        whole, files = bytes(data), self._store.files
        files[self._path] = self._store.read(self._path) + whole[: len(whole) // 2]
        self._fate.point()
        files[self._path] = self._store.read(self._path) + whole[len(whole) // 2 :]
        return len(whole)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class _Info:
    def __init__(self, path: str, kind: fs.FileType) -> None:
        self.base_name, self.type = path.rpartition("/")[2], kind


class StoreFiles:
    """The store as one process sees it, with a point before and after each change."""

    def __init__(self, store: Store, fate: Fate) -> None:
        self._store, self._fate = store, fate

    def create_dir(self, path: str, recursive: bool = True) -> None:
        """Folders are names here."""
        self._fate.point()

    def open_output_stream(self, path: str) -> _Output:
        """An empty file is there at once."""
        self._fate.point()
        return _Output(self._store, self._fate, path)

    def open_input_stream(self, path: str) -> io.BytesIO:
        """What the file holds."""
        self._fate.point()
        return io.BytesIO(self._store.read(path))

    def move(self, src: str, dest: str) -> None:
        """A copy and a deletion, as on an object store."""
        self._fate.point()
        self._store.files[dest] = self._store.read(src)
        self._fate.point()
        self._store.files.pop(src, None)
        self._fate.point()

    def delete_file(self, path: str) -> None:
        """It must be there."""
        self._fate.point()
        self._store.read(path)
        del self._store.files[path]
        self._fate.point()

    def get_file_info(self, asked: str | fs.FileSelector) -> _Info | list[_Info]:
        """Of a file, or of the files of a folder."""
        self._fate.point()
        if isinstance(asked, str):
            return _Info(asked, fs.FileType.File if asked in self._store.files else fs.FileType.NotFound)
        inside = [path for path in sorted(self._store.files) if path.rpartition("/")[0] == asked.base_dir]
        return [_Info(path, fs.FileType.File) for path in inside]
