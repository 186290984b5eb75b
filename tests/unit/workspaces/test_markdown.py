"""What people write in Markdown becomes HTML that can do nothing."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from workspaces.markdown import LONGEST, render


class Found(HTMLParser):
    """The elements and attributes that a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]


def test_it_shows_what_markdown_is_for():
    html = render("# Title\n\n*one* **two** `three`\n\n- a\n- b\n\n| x | y |\n|---|---|\n| 1 | 2 |")
    for part in ("<h3>Title</h3>", "<em>one</em>", "<strong>two</strong>", "<code>three</code>", "<li>a</li>", "<td>1"):
        assert part in html


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](data:text/html,<script>1</script>)",
        "![x](https://elsewhere.example/x.png)",
        "<style>*{display:none}</style>",
        '<a href="https://x.example" onclick="alert(1)">x</a>',
        "[x](https://x.example 'a\" onmouseover=\"alert(1)')",
        "<iframe src=//elsewhere.example></iframe>",
        '<b style="position:fixed">x</b>',
    ],
)
def test_nothing_in_it_acts(hostile: str):
    found = Found()
    found.feed(render(hostile))
    assert found.tags <= {"p", "a"}
    assert found.attributes <= {"href", "rel", "title"}
    assert all(address.startswith("https://") for address in found.addresses)


def test_links_lead_out_without_a_way_back():
    assert 'rel="noopener noreferrer nofollow"' in render("[x](https://example.org)")


def test_a_very_long_text_is_cut():
    assert len(render("a" * (LONGEST + 500))) < LONGEST + 50
