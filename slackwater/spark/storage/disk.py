"""The files of a journal: written whole, forced to the disk where there is one, and faults told in our words."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import fs

from slackwater.errors import JournalError

_HALF = ".half"


class Disk:
    """A file system, and whether what is written to it must outlive a power cut (`sync`).

    Only a local file system can be forced. Others, such as object stores, answer a write when it is safe.
    """

    def __init__(self, files: fs.FileSystem, sync: bool = True) -> None:
        self._files = files
        self._local = isinstance(files, fs.LocalFileSystem)
        self.forces = sync and self._local
        """Whether it has files forced to the disk."""

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        with io_errors_explained("make the folder", path):
            self._files.create_dir(path, recursive=True)

    def write(self, path: str, *parts: bytes | pa.Buffer) -> None:
        """Write a file that is there whole or not at all, and force it to the disk.

        On a local file system only its owner may read it: plans and rows are nobody else's.
        """
        half = path + _HALF
        with io_errors_explained("write", path):
            with self._files.open_output_stream(half) as stream:
                if self._local:
                    os.chmod(half, 0o600)
                for part in parts:
                    stream.write(part)
            self.force(os.path.dirname(path), [os.path.basename(half)], entries=False)
            self._files.move(half, path)
            self.force(os.path.dirname(path))

    def force(self, folder: str, names: Iterable[str] = (), entries: bool = True) -> None:
        """Force files of a folder to the disk, and the folder's entries."""
        if self.forces:
            with io_errors_explained("force to the disk", folder):
                for name in names:
                    _force(f"{folder}/{name}")
                if entries:
                    _force(folder)

    def force_tree(self, folder: str, root: str, names: Iterable[str] | None = None) -> None:
        """Force files of a folder, or all it holds, and the entries of the folders from there up to a root."""
        if not self.forces:
            return
        if names is None:
            for here, _, inside in os.walk(folder):
                self.force(here, inside)
        else:
            self.force(folder, names)
        while folder.startswith(f"{root}/"):
            folder = os.path.dirname(folder)
            self.force(folder)

    def mark(self, path: str) -> None:
        """Make an empty file; it is not forced, and its name is all it says."""
        with io_errors_explained("write", path), self._files.open_output_stream(path):
            pass

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if there is no such file."""
        with io_errors_explained("read", path):
            if self._files.get_file_info(path).type == fs.FileType.NotFound:
                return None
            with self._files.open_input_stream(path) as stream:
                return bytes(stream.read())

    def names(self, folder: str) -> list[str]:
        """The files of a folder. Those that a crash has left half written are deleted."""
        with io_errors_explained("read the folder", folder):
            found = [i.base_name for i in self._files.get_file_info(fs.FileSelector(folder, allow_not_found=True))]
        for name in found:
            if name.endswith(_HALF):
                self.delete(f"{folder}/{name}")
        return sorted(name for name in found if not name.endswith(_HALF))

    def delete(self, path: str) -> None:
        """Delete a file; it may be gone already."""
        with io_errors_explained("delete", path):
            try:
                self._files.delete_file(path)
            except FileNotFoundError:
                pass
            except OSError:
                if self._files.get_file_info(path).type != fs.FileType.NotFound:
                    raise


def _force(path: str) -> None:
    """Have the system write a local file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def io_errors_explained(act: str, path: str) -> Iterator[None]:
    """Say an error of the file system in our words."""
    try:
        yield
    except OSError as error:
        raise JournalError(f"cannot {act} {path!r}: {error}; {advice(error)}") from error


def advice(error: OSError) -> str:
    """What to do about an error of the file system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full: make room and start again, the journal goes on from its last commit"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "give this process the right to write there, or choose another folder for the journal"
    return "mend that and start again, or choose another folder for the journal"
