"""Elements: what travels on an arc. Pages carry rows, punctuations carry time, prods ask for an answer now."""

from __future__ import annotations

from typing import TypeAlias, TypedDict

from slackwater.operators.page import Page
from slackwater.operators.prod import Prod, ProdFields
from slackwater.progress.punctuation import Punctuation

Element: TypeAlias = Page | Punctuation | Prod


class SavedElement(TypedDict, total=False):
    """An element without rows as JSON values: one of the two."""

    prod: ProdFields
    punctuation: list[object]


def page_of(element: Element) -> Page:
    """An element that is known to be a page."""
    assert isinstance(element, Page)
    return element


def is_early(element: Element) -> bool:
    """Whether it is a page whose rows count for one prod only."""
    return isinstance(element, Page) and element.prod is not None


def of_prod(element: Element) -> Prod | None:
    """The prod that it is or that it belongs to; None for what is there to stay."""
    return element if isinstance(element, Prod) else element.prod if isinstance(element, Page) else None


def element_saved(element: Punctuation | Prod) -> SavedElement:
    """An element without rows as JSON values."""
    return {"prod": element.saved()} if isinstance(element, Prod) else {"punctuation": element.saved()}


def element_loaded(saved: SavedElement) -> Punctuation | Prod:
    """From what `element_saved` gave."""
    return Prod.load(saved["prod"]) if "prod" in saved else Punctuation.load(saved["punctuation"])
