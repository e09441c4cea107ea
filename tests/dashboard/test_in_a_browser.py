"""The live page in Chromium: it shows what `metrics()` tells, a click prods, and a lost connection comes back.

The pictures of docs/live-page.md are made here: SLACKWATER_PICTURES=1 writes them there.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slackwater.dashboard import LivePage
from slackwater.estimates.early import early
from slackwater.progress.learned.learned import learned
from tests.kit.watched import WatchedScript, rows, sliding

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make setup")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser: install chromium to test the live page in it")
#: All charts that can be seen show the newest figures.
DRAWN = """() => [...document.querySelectorAll('.chart')].map(element => element.chart)
    .every(chart => !chart.visible || !chart.data || (!chart.fresh && !chart.waiting))"""
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
#: Milliseconds after which a test gives up on what should be shown at once.
PATIENCE = 60_000
ASK = "Ask for an early answer"
#: When a page is opened, by the browser's clock.
OPENED = datetime(2026, 1, 14, 6, tzinfo=UTC)
CARRIERS = {"AA": 0.5, "B6": 0.8, "DL": 1.2, "UA": 2.0}
"""How late the rows of each come in the mean, in seconds; each sends less often than the one before."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        # As root Chromium has no sandbox.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def busy() -> Iterator[WatchedScript]:
    """Two queries after some minutes: windows have closed, early answers have become final, rows have been lost."""
    policy = learned(window="20 seconds")
    plans = {
        "delays": sliding("15 seconds", "5 seconds", policy, source="carrier", n="count(*)", late="avg(delay)"),
        "flights": sliding("5 seconds", "5 seconds", policy, source="carrier", where="delay > 0", n="count(*)"),
    }
    script = WatchedScript(plans, early(at=0.5))
    dice = random.Random(11)
    for second in range(1, 151):
        slow = 6.0 if second % 50 == 0 else 1.0
        sent = [
            (max(0.0, second - slow * dice.expovariate(1 / late)), carrier, dice.gauss(12, 5))
            for carrier, late in CARRIERS.items()
            for _ in range(dice.randint(1, round(9 / late)))
        ]
        script.page(rows(*sent), at=second)
    yield script
    script.stop()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A page of the browser that must not err, nor ask anybody but us."""
    context = browser.new_context(viewport={"width": 1400, "height": 2400})
    context.set_default_timeout(PATIENCE)
    opened, wrong = context.new_page(), list[str]()
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda asked: wrong.append(asked.url) if "//127.0.0.1:" not in asked.url else None)
    yield opened
    context.close()
    assert wrong == []


def shown(tab: Any, card: str) -> dict[str, Any]:
    """The raw figures of a card."""
    found = tab.locator(f"{card} [data-figure]").evaluate_all(
        "cells => cells.map(cell => [cell.dataset.figure, cell.dataset.value])"
    )
    return {name: json.loads(value) for name, value in found}


def told(figures: dict[str, Any], name: str) -> Any:
    first, _, second = name.partition(".")
    return json.loads(json.dumps(figures[first][second] if second else figures[first]))


def test_the_page_shows_what_metrics_tell_and_is_drawn_for_the_docs(
    tab: Any, busy: WatchedScript, tmp_path: Path
) -> None:
    folder = PICTURES if os.environ.get("SLACKWATER_PICTURES") else tmp_path
    # The browser's clock is moved by hand; its timers and frames go on.
    tab.clock.set_fixed_time(OPENED)
    with LivePage(busy) as page:
        tab.goto(page.url)
        tab.wait_for_selector("#link[data-state=open]")
        tab.wait_for_selector("[data-query=flights] .uplot")
        for name in ("delays", "flights"):
            figures = busy.query(name).metrics()
            found = shown(tab, f"[data-query={name}]")
            assert {"heartbeat", "lag_seconds", "rows", "late_rows", "lost_share", "early_results"} <= set(found)
            assert found == {figure: told(figures, figure) for figure in found}
            stream = shown(tab, "[data-stream=s]")
            assert {"wait", "lateness.p99", "lag_seconds"} <= set(stream)
            assert stream == {figure: told(figures["streams"]["s"], figure) for figure in stream}
            for label, of in figures["operators"].items():
                row = tab.locator(f'[data-row="{label}"]')
                assert row.locator('[data-column="rows in"]').inner_text() == f"{of['rows_in']:,}"
                assert row.locator('[data-column="runs"]').inner_text() == f"{of['runs']:,}"
                assert tab.locator(f'[data-operator="{label}"]').count() == 1
            lost = tab.locator(f"[data-query={name}] .losses tbody tr").all_inner_texts()
            given = busy.query(name).sink.rows
            table = tab.locator(f"[data-query={name}] .rows tbody tr")
            assert table.count() == min(200, len(given)) and given[-1]["carrier"] in table.first.inner_text()
            wanted = [f"{of['minute']}\t{of['source']}\t{of['rows']:,}" for of in figures["losses"]]
            assert lost == wanted and lost, "some rows are lost, and the page says whose"
        behind = figures["streams"]["s"]["held_back_by"]
        text = tab.locator("[data-query=delays] .holds").inner_text()
        assert text.startswith(f"Waits for source {next(iter(behind))} of stream s: its time is "), text
        assert "intervals held" in tab.locator("[data-query=delays] [data-part=accuracy]").inner_text()
        # A lag is noted half a second after the one before at the earliest, and drawn once there are two.
        tab.clock.set_fixed_time(OPENED + timedelta(seconds=1))
        busy.page(rows((150.5, "AA", 10.0)), at=151)
        # Lag, answers and losses of each query, and the lateness of the stream.
        tab.wait_for_function("() => document.querySelectorAll('.uplot canvas').length === 7")
        tab.wait_for_function(DRAWN)
        tab.screenshot(path=folder / "live-page.png", full_page=True)
        tab.emulate_media(color_scheme="dark")
        tab.wait_for_function("() => getComputedStyle(document.body).backgroundColor === 'rgb(16, 23, 28)'")
        tab.wait_for_function(DRAWN)
        tab.locator("[data-query=delays]").screenshot(path=folder / "live-page-dark.png")
        tab.emulate_media(color_scheme="light")
        for width, height in ((800, 1000), (390, 844)):
            tab.set_viewport_size({"width": width, "height": height})
            tab.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")
        tab.wait_for_function(DRAWN)
        tab.screenshot(path=folder / "live-page-phone.png")


def test_a_click_prods_with_a_filter_and_a_mistake_is_told(tab: Any, script: WatchedScript, page: LivePage) -> None:
    tab.goto(page.url)
    card = tab.locator("[data-query=delays]")
    card.get_by_label("groups to ask delays for").fill("carrier = 'AA'")
    card.get_by_role("button", name=ASK).click()
    card.get_by_text("asked at").wait_for()
    given = script.query("delays").sink.rows
    assert given and {(row["kind"], row["carrier"]) for row in given} == {("early", "AA")}
    assert not script.query("counts").sink.rows
    card.get_by_label("groups to ask delays for").fill("delay > 3")
    card.get_by_role("button", name=ASK).click()
    card.get_by_text("there is no column 'delay'").or_(card.get_by_text("group columns")).first.wait_for()
    assert script.query("delays").active and len(script.query("delays").sink.rows) == len(given)
    tab.wait_for_function(
        "() => document.querySelector('[data-query=delays] [data-figure=early_results]').dataset.value !== '0'"
    )


def test_the_latest_rows_are_sorted_by_a_click_and_filtered_by_a_text(
    tab: Any, script: WatchedScript, page: LivePage
) -> None:
    tab.goto(page.url)
    card = tab.locator("[data-query=delays]")
    card.get_by_text("No result row has come yet. A window answers").wait_for()
    script.query("delays").prod()
    script.page(rows((40, "AA", 11.0), (41, "UA", 6.0)), at=42)
    given = script.query("delays").sink.rows
    assert {row["kind"] for row in given} == {"early", "final"}
    card.get_by_text(f"{len(given)}, the newest first").wait_for()

    def cells(column: str) -> list[str]:
        place = card.locator(".rows th").all_inner_texts().index(column)
        return list(card.locator(f".rows tbody td:nth-child({place + 1})").all_inner_texts())

    assert cells("carrier") == [row["carrier"] for row in reversed(given)]
    card.get_by_role("button", name="late", exact=True).click()
    assert [float(text) for text in cells("late")] == sorted((row["late"] for row in given), reverse=True)
    card.get_by_role("button", name="late", exact=True).click()
    assert [float(text) for text in cells("late")] == sorted(row["late"] for row in given)
    card.get_by_role("searchbox").fill("ua")
    few = [row for row in given if row["carrier"] == "UA"]
    card.get_by_text(f"{len(few)} of {len(given)}").wait_for()
    assert set(cells("carrier")) == {"UA"} and len(cells("carrier")) == len(few)


def test_a_print_has_all_rows_and_charts(tab: Any, busy: WatchedScript, tmp_path: Path) -> None:
    with LivePage(busy) as page:
        tab.goto(page.url)
        tab.wait_for_selector("[data-query=flights] .uplot")
        tab.set_viewport_size({"width": 800, "height": 600})
        tab.emulate_media(media="print")
        tab.evaluate("() => dispatchEvent(new Event('beforeprint'))")
        whole = "list => list.every(box => box.scrollHeight <= box.clientHeight + 1)"
        assert tab.locator(".rows, .losses, #plan").evaluate_all(whole)
        assert tab.locator(".chart:not([hidden])").evaluate_all(
            "list => list.filter(one => one.chart.data).every(one => one.querySelector('canvas'))"
        )
        assert not tab.get_by_role("button", name=ASK).first.is_visible()


def test_a_session_without_queries_says_what_to_do(tab: Any) -> None:
    empty = WatchedScript({})
    with LivePage(empty) as page:
        tab.goto(page.url)
        tab.get_by_text("No query has been started. Start one").wait_for()
        assert tab.locator("#spark").get_attribute("href") == empty.spark_ui
    empty.stop()


def test_a_query_is_stopped_by_two_clicks_and_work_is_paused_by_one(
    tab: Any, script: WatchedScript, page: LivePage
) -> None:
    tab.goto(page.url)
    tab.get_by_role("button", name="Pause").click()
    tab.get_by_role("button", name="Resume").wait_for()
    assert script.paused
    tab.get_by_role("button", name="Resume").click()
    tab.get_by_role("button", name="Pause").wait_for()
    assert not script.paused
    card = tab.locator("[data-query=counts]")
    card.get_by_role("button", name="Stop").click()
    assert script.query("counts").active
    card.get_by_role("button", name="Really stop?").click()
    card.locator("[data-status=stopped]").wait_for()
    assert not script.query("counts").active and script.query("delays").active
    assert card.get_by_role("button", name=ASK).is_disabled()


def test_a_lost_connection_comes_back(tab: Any, script: WatchedScript) -> None:
    page = LivePage(script)
    tab.goto(page.url)
    tab.wait_for_selector("#link[data-state=open]")
    page.stop()
    tab.wait_for_selector("#link[data-state=lost]")
    script.page(rows((5, "AA", 1.0)), at=6)
    with LivePage(script, port=page.port):
        tab.wait_for_selector("#link[data-state=open]")
        tab.wait_for_function(
            "() => document.querySelector('[data-query=delays] [data-figure=rows]').dataset.value === '4'"
        )


def test_names_are_shown_as_they_are_and_never_as_markup(tab: Any) -> None:
    name = "<img src=x onerror=alert(1)>'\"&"
    script = WatchedScript({name: sliding()})
    try:
        script.page(rows((1, "<b>AA</b>", 1.0)), at=2)
        script.query(name).prod()
        with LivePage(script) as page:
            tab.goto(page.url)
            tab.locator("article h3", has_text=name).first.wait_for()
            assert tab.locator("main img").count() == 0 and tab.locator("main b b").count() == 0
            card = tab.locator("article").first
            card.get_by_role("button", name=ASK).click()
            card.get_by_text("asked at").wait_for()
            assert len(script.query(name).sink.rows) >= 2
    finally:
        script.stop()
