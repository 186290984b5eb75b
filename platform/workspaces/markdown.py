"""Markdown of people as HTML that can do nothing: no raw HTML, no pictures, no styles, links without a way back."""

from __future__ import annotations

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

LONGEST = 20_000
TAGS = {
    "p", "br", "hr", "h3", "h4", "h5", "h6", "strong", "em", "s", "code", "pre", "blockquote",
    "ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
SCHEMES = {"http", "https", "mailto"}
# The page has its own first and second level.
_LOWER = {"h1": "h3", "h2": "h4"}

_markdown = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])


def render(text: str) -> SafeString:
    """The text as HTML. Raw HTML in it is shown as it was typed; what the cleaner does not know falls away."""
    tokens = _markdown.parse(text[:LONGEST])
    for token in tokens:
        if token.type.startswith("heading_"):
            token.tag = _LOWER.get(token.tag, token.tag)
    html = _markdown.renderer.render(tokens, _markdown.options, {})
    cleaned = nh3.clean(
        html, tags=TAGS, attributes=ATTRIBUTES, url_schemes=SCHEMES, link_rel="noopener noreferrer nofollow"
    )
    return mark_safe(cleaned)
