"""Draws the Mermaid diagrams of the pages as SVG files: the site shows those, and fetches no script for it.

Run it when a diagram has changed, as `python docs/diagrams.py mermaid.min.js`. The script is Mermaid's own
(`npm pack mermaid@11`, in `package/dist`); Chromium runs it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
DRAWN = DOCS / "pictures" / "diagrams"
FENCE = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Lines and their labels are grey, to be seen on a light and on a dark page.
_SETTINGS = """{startOnLoad: false, theme: 'base', htmlLabels: false, flowchart: {htmlLabels: false},
    themeVariables: {primaryColor: '#e0f2f1', primaryBorderColor: '#00897b', primaryTextColor: '#222',
                     lineColor: '#888', clusterBkg: 'transparent', clusterBorder: '#888', titleColor: '#888',
                     edgeLabelBackground: '#eee', fontFamily: 'sans-serif', fontSize: '14px'}}"""


def picture(diagram: str) -> Path:
    """The file that shows a diagram; another text has another file."""
    return DRAWN / f"{hashlib.sha256(diagram.encode()).hexdigest()[:12]}.svg"


def diagrams() -> Iterator[str]:
    """The texts of all diagrams."""
    for page in sorted(DOCS.rglob("*.md")):
        yield from (match[1] for match in FENCE.finditer(page.read_text(encoding="utf-8")))


def draw(script: Path) -> None:
    """Draw the diagrams that have no picture, and delete the pictures of those that are gone."""
    from playwright.sync_api import sync_playwright

    DRAWN.mkdir(exist_ok=True)
    wanted = {picture(text): text for text in diagrams()}
    for left in set(DRAWN.iterdir()) - set(wanted):
        left.unlink()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        page = browser.new_page()
        page.add_script_tag(path=script)
        page.evaluate(f"mermaid.initialize({_SETTINGS})")
        for file, text in wanted.items():
            if not file.exists():
                svg = page.evaluate("text => mermaid.render('diagram', text).then(made => made.svg)", text)
                file.write_text(svg + "\n", encoding="utf-8")
        browser.close()


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
