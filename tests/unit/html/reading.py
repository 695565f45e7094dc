"""What a page says, as a program reads HTML."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


__all__ = ["Page", "read"]

_VOID = {"meta", "link", "br", "input"}


@dataclass
class Page(HTMLParser):
    """Elements, attributes and text of a page.

    Attributes:
        tags: names of all elements.
        attributes: all of them: element, name, value.
        texts: all text, but for that of scripts and styles.
        raw: text of scripts and styles.
        open: elements that are not closed.
    """

    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take in an element."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take in an element without content."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        """Close an element, which must be the one that was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Take in text."""
        (self.raw if self.open and self.open[-1] in {"script", "style"} else self.texts).append(data)

    @property
    def text(self) -> str:
        """All text."""
        return "".join(self.texts)


def read(html: str) -> Page:
    """Read a page; every element of it is closed."""
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == []
    return page
