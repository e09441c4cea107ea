"""What is known of sidelined pages, against a plain list of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.operators.sidelined_pages import SidelinedPages
from slackwater.windows.spec import WindowSpec
from tests.kit.streams import WINDOWS

#: Lowest and highest time, and rows.
PAGES = st.builds(
    lambda low, more, n: (low, low + more, n), st.integers(-30, 30), st.integers(0, 20), st.integers(1, 9)
)


@given(WINDOWS, st.lists(st.one_of(PAGES, PAGES, st.none()), max_size=25), st.integers(-40, 60))
def test_the_window_that_lacks_least_comes_next_and_time_passes_beside_the_pages(
    window: tuple[int, int], steps: list[tuple[int, int, int] | None], tick: int
) -> None:
    spec, pages, model = WindowSpec(*window), SidelinedPages(), list[tuple[int, int, int]]()

    def end(page: tuple[int, int, int]) -> int:
        return spec.bounds(spec.last_window(spec.pane_of(page[1])))[1]

    for page in steps:
        if page is not None:
            pages.put(*page, end(page))
            model.append(page)
        elif model:
            lacking = {end(p): sum(q[2] for q in model if end(q) == end(p)) for p in model}
            place = min(range(len(model)), key=lambda n: lacking[end(model[n])])
            assert pages.next_rows() == model[place][2]
            assert pages.take() == place
            del model[place]
        assert len(pages) == len(model)
        gaps = pages.gaps(tick)
        passed = {t for t in range(-60, 61) if any((a is None or a < t) and t <= u for a, u in gaps)}
        touched = {t for low, high, _ in model for t in range(low, high + 1)}
        assert not passed & touched
        assert max(passed, default=-61) <= tick
        for k in range(-60, 40):
            inside = set(range(*spec.bounds(k)))
            if inside <= set(range(-60, tick + 1)) - touched:
                assert inside <= passed, "every window that waits for no page can be closed"
