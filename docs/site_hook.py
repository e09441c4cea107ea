"""What the site shows of files outside docs/: READMEs, examples and the notebook become pages; links lead there.

Diagrams are shown as the pictures that `docs/diagrams.py` has drawn of them.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from diagrams import DOCS, FENCE, picture
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
#: A file of the repository, and the page of the site that shows it.
SHOWN = {
    "benchmarks/README.md": "benchmarks.md",
    "experiments/README.md": "experiments.md",
    "CHANGELOG.md": "changelog.md",
    "examples/tour.ipynb": "tour.md",
}
EXAMPLES = "examples.md"
#: What the theme would fetch so that the search works on a site that is opened as a file; and our copy of it.
_FETCHED, _COPY = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker/shim.js"
_LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from other files."""
    for source, page in SHOWN.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        text = _notebook(json.loads(text)) if source.endswith(".ipynb") else text
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, EXAMPLES, content=_examples()))
    return files


def _examples() -> str:
    parts = ["# Examples\n\nEach is a whole program, in the folder `examples` of the repository."]
    for path in sorted((ROOT / "examples").iterdir()):
        language = {".py": "python", ".sql": "sql", ".Dockerfile": "dockerfile"}.get(path.suffix)
        if language is not None:
            parts.append(f"## {path.name}\n\n```{language}\n{path.read_text(encoding='utf-8')}```")
    return "\n\n".join(parts) + "\n"


def _notebook(notebook: dict[str, Any]) -> str:
    """Its cells one below the other, with what they gave as text."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            given = "".join(output["text"] if "text" in output else output["data"]["text/plain"])
            parts.append(f"```text\n{given.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Let links lead to pages of the site, wherever the file that they name lies."""
    shown = {of: source for source, of in SHOWN.items()}
    here = shown.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def lead(match: re.Match[str]) -> str:
        to = posixpath.normpath(posixpath.join(posixpath.dirname(here), match[1]))
        anchor = match[2] or ""
        if to in SHOWN:
            target = SHOWN[to]
        elif to == "README.md":
            target = "index.md"
        elif to == "examples" or to.startswith("examples/"):
            target = EXAMPLES
            anchor = f"#{posixpath.basename(to).replace('.', '')}" if "/" in to else ""
        elif to.startswith("docs/"):
            target = to.removeprefix("docs/")
        else:
            return match[0]
        return posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".") + anchor

    return FENCE.sub(lambda match: _drawn(match[1], page), _LINK.sub(lead, markdown))


def _drawn(diagram: str, page: Page) -> str:
    file = picture(diagram)
    if not file.exists():
        raise PluginError(f"{page.file.src_uri}: a diagram has changed; draw it anew with docs/diagrams.py")
    place = posixpath.relpath(file.relative_to(DOCS).as_posix(), posixpath.dirname(page.file.src_uri) or ".")
    return f"![A diagram of what is said here]({place})"


def on_post_page(output: str, page: Page, config: Any) -> str:
    """Let the page take the copy."""
    return output.replace(_FETCHED, posixpath.relpath(_COPY, posixpath.dirname(page.file.dest_uri) or "."))


def on_post_template(output: str, template_name: str, config: Any) -> str:
    """The same for the page that says that there is no such page, at whatever depth."""
    return output.replace(_FETCHED, f"/{_COPY}")
