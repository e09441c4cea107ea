"""A query with several outputs: each has every row once, whatever fails or crashes between two of them."""

from __future__ import annotations

from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from slackwater.errors import RunError
from slackwater.operators.payload import Payload
from slackwater.operators.prod import Prod
from slackwater.operators.several_outputs import SeveralOutputs
from slackwater.progress.bounds.bounded import bounded
from slackwater.spark.storage.journal_files import FileJournal
from slackwater.testing import ListSink, Script, arrow_plan
from tests.kit.streams import SAMPLE, Stream, bounded_streams, frame, timeless


class Mortal(ListSink):
    """Fails before, or dies after, it has taken a commit; one that comes again must have the same rows."""

    about, advice = "the mortal one", "mend it"

    def __init__(self, script: list[str | None]) -> None:
        super().__init__()
        self.script = script

    def write(self, payload: Payload, commit_id: int) -> None:
        fate = self.script.pop(0) if self.script else None
        if fate == "before":
            raise OSError("no space left")
        assert commit_id not in self.commits or self.commits[commit_id].equals(payload)
        super().write(payload, commit_id)
        if fate == "after":
            raise OSError("the process has died")


def plan(slack: int) -> object:
    return arrow_plan(SAMPLE, 10, 5, group_by=["g"], disorder=bounded(slack), n="count(*)", total="sum(i)")


FATES = st.lists(st.sampled_from([None, None, "before", "after"]), max_size=6)


@given(bounded_streams(), FATES, FATES, FATES)
def test_each_output_has_every_row_once(
    stream: Stream, first: list[str | None], second: list[str | None], third: list[str | None]
) -> None:
    calm = Script(plan(stream.slack))  # type: ignore[arg-type]
    for page in stream.pages:
        calm.page(page)
    wanted = timeless(calm.drain().results)
    outputs = [Mortal(first), Mortal(second), Mortal(third)]
    with TemporaryDirectory() as folder:
        while True:
            journal = FileJournal(fs.LocalFileSystem(), folder, sync=False)
            try:
                script = Script(plan(stream.slack), journal, SeveralOutputs(outputs))  # type: ignore[arg-type]
                for page in stream.pages[script._numbers["s"] + 1 :]:
                    script.page(page)
                script.drain()
                break
            except RunError:
                continue
            finally:
                journal.close()
    for output in outputs:
        assert timeless(output.rows) == wanted


def test_the_output_that_fails_is_named() -> None:
    outputs = SeveralOutputs([ListSink(), Mortal(["before"]), ListSink()])
    script = Script(plan(0), sink=outputs)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="its results to the mortal one: OSError: no space left; mend it"):
        script.page(frame([[1, "a"], [25, "a"]]))
    assert [len(output.rows) for output in (outputs.all[0], outputs.all[2])] == [2, 0]  # type: ignore[attr-defined]


class Asks(ListSink):
    def __init__(self, prod: Prod | None) -> None:
        super().__init__()
        self.prod = prod

    def write(self, payload: Payload, commit_id: int) -> Prod | None:  # type: ignore[override]
        super().write(payload, commit_id)
        return self.prod


@pytest.mark.parametrize(
    ("asked", "answered"),
    [([None, None], None), ([None, Prod(5)], Prod(5)), ([Prod(5), Prod(7)], Prod())],
)
def test_what_outputs_ask_for(asked: list[Prod | None], answered: Prod | None) -> None:
    outputs = SeveralOutputs([Asks(prod) for prod in asked])
    assert outputs.write(SAMPLE.to_arrow(), 0) == answered
