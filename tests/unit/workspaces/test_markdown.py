"""What people write in Markdown becomes HTML that can do nothing."""

from __future__ import annotations

import pytest

from workspaces.markdown import LONGEST, render


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
    html = render(hostile)
    for bad in (
        "<script",
        "<img",
        "<style",
        "<iframe",
        "<b ",
        'href="javascript',
        'href="data',
        'onclick="',
        " style=",
    ):
        assert bad not in html
    assert ' onmouseover="' not in html


def test_links_lead_out_without_a_way_back():
    assert 'rel="noopener noreferrer nofollow"' in render("[x](https://example.org)")


def test_a_very_long_text_is_cut():
    assert len(render("a" * (LONGEST + 500))) < LONGEST + 50
