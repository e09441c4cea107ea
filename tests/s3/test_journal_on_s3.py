"""A journal on S3: the process dies between any two requests, and a second session takes over. make test-s3"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from slackwater.errors import JournalError
from slackwater.spark.storage.journal_files import FileJournal, open_journal
from slackwater.spark.storage.storage_dir import StorageDir
from slackwater.testing import ListSink, Script
from tests.engine.test_journal import PAGES, assert_undisturbed, query, undisturbed
from tests.kit.faults import Fate, World
from tests.kit.streams import assert_same_rows, timeless

pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of this machine with an empty bucket, and how pyarrow reaches it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/").close()
                break
            except OSError:
                assert server.poll() is None, "moto does not start: pip install 'moto[server]'"
                time.sleep(0.1)
        given = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
        yield f"s3://me:secret@bucket/journals/%s?{given}"
    finally:
        server.kill()
        server.wait()


def place(address: str, name: str) -> StorageDir:
    found = StorageDir.of(address % name)
    found.files.create_dir("bucket")
    return found


def test_the_process_may_die_between_any_two_requests(address: str) -> None:
    whole = place(address, "whole")
    calm, fate = undisturbed(PAGES), Fate()
    world = World(query(), PAGES, Path(whole.path), files=whole.files)
    assert world.live(fate) is not None
    assert fate.count > 80
    for death in range(1, fate.count, 4):
        world = World(query(), PAGES, Path(whole.path).with_name(f"death{death}"), files=whole.files)
        script = world.outlive([death, 1 + death // 3])
        assert_undisturbed(world, script, calm)


def test_a_second_session_takes_over(address: str) -> None:
    calm, sink = undisturbed(PAGES), ListSink()
    first = Script(query(), open_journal(place(address, "taken")), sink)
    for page in PAGES[:2]:
        first.page(page)
    second = Script(query(), open_journal(place(address, "taken")), sink)
    before = dict(sink.commits)
    with pytest.raises(JournalError, match=r"was taken over by a session of this process"):
        first.page(PAGES[2])
    assert sink.commits == before, "the older one has written nothing"
    for number, page in enumerate(PAGES[2:], 2):
        second.page(page, number=number)
    assert_same_rows(timeless(second.drain().results), timeless(calm.results), ["window_start", "g"])


def test_both_names_of_s3_are_one_place(address: str) -> None:
    journal = open_journal(place(address, "named"))
    journal.close()
    again = StorageDir.of((address % "named").replace("s3://", "s3a://"))
    assert isinstance(again.files, fs.S3FileSystem)
    assert open_journal(again).id == journal.id
    assert isinstance(journal, FileJournal)
