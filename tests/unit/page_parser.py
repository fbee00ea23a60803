"""What a page says, for tests."""

import re
from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    """Texts, tables (lists of rows of field texts), tags and addresses of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self.in_field = False
        self.feed(html)
        self.text = re.sub(r"\s+", " ", self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [
            value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "srcset", "action")
        ]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.in_field = True
        elif tag == "span":
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.in_field:
            self.tables[-1][-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.tables[-1][-1][-1] = " ".join(self.tables[-1][-1][-1].split())
            self.in_field = False

    def table(self, first_heading: str, second_heading: str) -> dict[str, dict[str, str]]:
        """The table with these headings, by its first column."""
        found = next(table for table in self.tables if table[0][:2] == [first_heading, second_heading])
        return {row[0]: dict(zip(found[0], row, strict=True)) for row in found[1:]}


def page_of(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))
