"""Stored text as safe HTML: a strict part of Markdown, without raw HTML, images or headings that disturb a page.

Texts of memories are untrusted. Every character of them is escaped. Links lead to http, https and mailto only, and send
no referrer. An image is only a link to it. A text that is too large is not parsed.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

# Characters of a text that is parsed; a longer one is a file, and shown as it is.
_PARSED_CHARS: Final = 20_000
_LINK_PREFIXES: Final = ("http://", "https://", "mailto:")


def render_markdown(text: str) -> Markup:
    """Return a stored text as HTML."""
    if len(text) > _PARSED_CHARS:
        return Markup('<p class="plain">{}</p>').format(text)
    # Every text of the source was escaped by the renderer.
    return Markup(_parser().render(text))  # noqa: S704


def render_line(text: str) -> Markup:
    """Return a stored text as one line of HTML: only code between backticks is set apart."""
    parts = text.split("`")
    # A last backtick without a partner stays a character.
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    marked = (
        Markup("<code>{}</code>").format(part) if number % 2 and part else escape(part)
        for number, part in enumerate(parts)
    )
    return Markup("").join(marked)


@cache
def _parser() -> MarkdownIt:
    """Return the parser, which knows no raw HTML."""
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    parser.disable(["image", "html_block", "html_inline"])
    parser.enable(["table", "strikethrough"])
    parser.validateLink = _is_allowed  # type: ignore[method-assign]
    for name, rule in (
        ("heading_open", _open_heading),
        ("heading_close", _close_heading),
        ("link_open", _open_link),
        ("fence", _render_code),
        ("code_block", _render_code),
    ):
        parser.add_render_rule(name, rule)
    return parser


def _is_allowed(url: str) -> bool:
    """Return True if a link may lead there."""
    return url.strip().lower().startswith(_LINK_PREFIXES)


# The parser calls these with itself, the tokens, a position, its options and its environment.


def _open_heading(
    _renderer: Any, _tokens: Sequence[Token], _at: int, _options: Any, _environment: Any
) -> str:
    return '<p class="heading">'


def _close_heading(
    _renderer: Any, _tokens: Sequence[Token], _at: int, _options: Any, _environment: Any
) -> str:
    return "</p>\n"


def _open_link(
    renderer: Any,
    tokens: Sequence[Token],
    at: int,
    options: Any,
    environment: MutableMapping[str, Any],
) -> str:
    tokens[at].attrSet("rel", "noopener noreferrer nofollow")
    return str(renderer.renderToken(tokens, at, options, environment))


def _render_code(
    _renderer: Any, tokens: Sequence[Token], at: int, _options: Any, _environment: Any
) -> str:
    return f'<pre tabindex="0"><code>{escape(tokens[at].content)}</code></pre>\n'
