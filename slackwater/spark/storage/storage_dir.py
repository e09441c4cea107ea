"""Places on the journal's file system: where Spark and pyarrow both read and write."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass

from pyarrow import fs

from slackwater.errors import QueryError, SlackwaterError
from slackwater.spark.storage.disk import io_errors_explained

#: Most file systems take names of 255 bytes; a longer one is cut, and gets a checksum of the whole.
_LONGEST_NAME = 120
#: Bytes of a file that are in memory while it is copied.
_COPIED_AT_ONCE = 2**20


def file_name(text: str) -> str:
    """A name for a file or a folder that no other text has, whatever characters are in it.

    >>> file_name("q1/window"), file_name("late-flights_2"), file_name("é:*")
    ('q1~2fwindow', 'late-flights_2', '~c3~a9~3a~2a')
    """
    safe = "".join(chr(b) if (chr(b).isalnum() and b < 128) or b in b"_-." else f"~{b:02x}" for b in text.encode())
    if safe[:1] in ("_", "."):
        safe = f"~{ord(safe[0]):02x}{safe[1:]}"  # Spark takes such files for hidden ones
    if len(safe) > _LONGEST_NAME:
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        safe = f"{safe[:_LONGEST_NAME]}~~{digest}"
    return safe


@dataclass(frozen=True)
class StorageDir:
    """A folder, for pyarrow (file system and path) and for Spark (an address)."""

    files: fs.FileSystem
    path: str
    address: str

    @staticmethod
    def of(where: str | os.PathLike[str]) -> StorageDir:
        """A local path or an address that pyarrow knows (s3://…, hdfs://…, gs://…).

        `s3://` and `s3a://` are the same: pyarrow says the one, Spark the other. What follows a `?`, such as
        `endpoint_override=`, is for pyarrow.
        """
        text = os.fspath(where) if isinstance(where, (str, os.PathLike)) else ""
        if not text.strip():
            raise QueryError(f"{where!r} is no folder; write a path or an address, as in 'out/late'")
        if "://" in text:
            scheme, _, rest = text.partition("://")
            address = text.partition("?")[0]
            if scheme in ("s3", "s3a"):
                text, address = f"s3://{rest}", f"s3a://{rest.partition('?')[0]}"
            try:
                files, path = fs.FileSystem.from_uri(text)
            except (ValueError, OSError) as error:
                raise SlackwaterError(f"no file system for {text!r}: {error}") from error
            if not path.strip("/"):
                raise QueryError(
                    f"{where!r} is no folder: it names none; write one behind it, as in 's3://bucket/out'"
                )
            return StorageDir(files, path.rstrip("/"), address.rstrip("/"))
        path = os.path.abspath(text)
        return StorageDir(fs.LocalFileSystem(), path, f"file://{path}")

    @staticmethod
    def temporary() -> StorageDir:
        """A new folder of this machine."""
        return StorageDir.of(tempfile.mkdtemp(prefix="slackwater-"))

    def child(self, name: str) -> StorageDir:
        """A folder inside."""
        return StorageDir(self.files, f"{self.path}/{name}", f"{self.address}/{name}")

    @property
    def local(self) -> bool:
        """Whether it is on this machine's own file system."""
        return isinstance(self.files, fs.LocalFileSystem)

    def delete(self) -> None:
        """Delete the folder, if it is there."""
        with io_errors_explained("delete", self.path):
            if self.files.get_file_info(self.path).type == fs.FileType.Directory:
                self.files.delete_dir(self.path)

    def copy_file(self, name: str, target: StorageDir, new_name: str) -> None:
        """Copy a file of this folder to another one."""
        with (
            self.files.open_input_file(f"{self.path}/{name}") as source,
            target.files.open_output_stream(f"{target.path}/{new_name}") as copy,
        ):
            shutil.copyfileobj(source, copy, _COPIED_AT_ONCE)

    def size(self) -> int:
        """Bytes of the files inside."""
        return sum(info.size or 0 for info in self._inside(recursive=True))

    def names(self) -> list[str]:
        """What lies inside; nothing if there is no such folder."""
        return sorted(info.base_name for info in self._inside())

    def _inside(self, recursive: bool = False) -> list[fs.FileInfo]:
        with io_errors_explained("read the folder", self.path):
            found = fs.FileSelector(self.path, allow_not_found=True, recursive=recursive)
            return list(self.files.get_file_info(found))
