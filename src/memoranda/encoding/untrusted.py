"""Stored text for a model: memory is untrusted, and no text may end its frame or open another one.

Every interface that passes text to a model uses this (UMP rehydration, all formats of CAL, SML, templates, MCP):

    1. Invisible characters are removed: zero-width and bidi characters, tag characters, stray joiners, and variation
       selectors that select nothing.
    2. Control characters become spaces. Line breaks are left to the output format.
    3. Anything that resembles a tag of a frame loses its `<`: in any case, with spaces, accents or full-width
    characters, with lookalikes from other scripts (Cyrillic, Greek and more) or of `<`, `/` and `:`.
    4. Tokens of chat templates (`chat_tokens`) lose their `<` or `[` in the same way.

This changes output only, never stored text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from memoranda.encoding.chat_tokens import CHAT_TOKENS

if TYPE_CHECKING:
    from memoranda.encoding.json_text import Json

# The tags of SML and its envelope, the frame of UMP, and frames in which frameworks and hosts show memories to a model.
# No text may spell any of them, whatever frame contains it.
FRAME_TAGS: Final = (
    *(
        "belief",
        "goal",
        "event",
        "action",
        "observation",
        "reasoning",
        "state",
        "workflow",
        "consensus",
        "consent",
    ),
    "context",
    "ump:memory",
    "umpmemory",
    *("memory", "past_conversations"),
)

# Soft hyphen, bidi controls, zero-width and interlinear marks, tag characters.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Joiners form words in Persian and Indic scripts and build emoji; next to ASCII they only hide something.
_STRAY_JOINER = re.compile(
    "(?<![^\x00-\x7f\u200c\u200d])[\u200c\u200d]+|[\u200c\u200d]+(?![^\x00-\x7f\u200c\u200d])"
)
# A selector chooses one of the forms of the character before it, never of a letter; a digit, # or * may become a key.
# Other selectors only hide something.
_STRAY_SELECTOR = re.compile(
    "(?:(?<=[\ufe00-\ufe0f])|(?<=[\x00-\x22$-)+-/:-\u00a8])|(?<=[\u00c0-\u024f])|^)[\ufe00-\ufe0f]+"
)
# All control characters except tab and those that may be taken for the end of a line.
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]+")
_OPENERS: Final = "<\u02c2\u1438\u16b2\u2329\u276c\u276e\u27e8\u29fc\u3008\ufe64\uff1c\U0001d236"
_BRACKETS: Final = "[\uff3b\ufe47"
_OPENER = re.compile(f"[{_OPENERS}{re.escape(_BRACKETS)}]")


# Characters of other scripts (Cyrillic, Greek, Armenian, Cherokee, Lisu, small capitals) that look like an ASCII
# character but do not decompose to it.
_LOOKALIKES: Final = {
    "<": _OPENERS,
    "/": "\u1735\u2044\u2215\u2571\u27cb\u29f8\u3033",
    ":": "\u02d0\u02f8\u0589\u05c3\u0703\u0704\u16ec\u205a\u2236\ua789\ufe30",
    "a": "\u0251\u0391\u03b1\u0410\u0430\u13aa\u1d00\ua4ee",
    "b": "\u0185\u0253\u0299\u0392\u03b2\u0412\u0432\u044c\u13f4\ua4d0",
    "c": "\u03c2\u03f2\u03f9\u0421\u0441\u13df\u1d04\ua4da",
    "d": "\u0257\u0500\u0501\u13a0\u1d05\ua4d3",
    "e": "\u0395\u03b5\u0415\u0435\u13ac\u1d07\ua4f0",
    "f": "\u0192\u03dc\u0493\ua4dd\ua730",
    "g": "\u0261\u0262\u0581\u13c0\ua4d6",
    "h": "\u0397\u041d\u04bb\u0570\u13bb",
    "i": "\u0131\u0268\u0269\u026a\u0399\u03b9\u0406\u0456\u13a5\ua4f2",
    "j": "\u0458",
    "k": "\u039a\u03ba\u041a\u043a\u1d0b\ua4d7",
    "l": "\u019a\u029f\u04c0\u04cf\u13de\ua4e1",
    "m": "\u0271\u039c\u041c\u043c\u13b7\u1d0d\ua4df",
    "n": "\u0272\u0274\u039d\u03b7\u043f\u0578\ua4e0",
    "o": "\u00f8\u039f\u03bf\u041e\u043e\u0585\u1d0f\u1d11\ua4f3",
    "p": "\u03a1\u03c1\u0420\u0440\u13e2\u1d18\ua4d1",
    "q": "\u0566",
    "r": "\u0280\u0433\ua4e3",
    "s": "\u0405\u0455\u13da\ua4e2\ua731",
    "t": "\u03a4\u03c4\u0422\u0442\u13a2\u1d1b\ua4d4",
    "u": "\u03bc\u03c5\u0438\u0446\u057d\u1d1c\ua4f4",
    "v": "\u028b\u03bd\u0474\u0475\u13d9\u1d20\ua4e6",
    "w": "\u03c9\u051c\u051d\u13d3\u13d4\u1d21\ua4ea",
    "x": "\u03a7\u03c7\u0425\u0445\ua4eb",
    "y": "\u028f\u03a5\u03b3\u0423\u0443\u13a9\ua4ec",
}
_PLAIN_BY_LOOKALIKE: Final = {twin: plain for plain, twins in _LOOKALIKES.items() for twin in twins}
# Categories of characters that do not keep a reader from seeing a tag: combining marks and formatting.
_IGNORED_CATEGORIES: Final = ("Mn", "Me", "Cf", "Cc")


# Characters of the name in <|name|> at most; the longest of a known model has 33.
_TOKEN_CHARS: Final = 64
# The replacement of a bracket of a chat template, by the replacement of the `<` of a tag.
_BRACKET_REPLACEMENTS: Final = {"&lt;": "&#91;"}


def _tag_pattern(between: str = "") -> re.Pattern[str]:
    """Compile a pattern for the first character of a tag, also in a longer word, because models parse loosely."""

    def spell(words: Iterable[str]) -> str:
        return "|".join(between.join(map(re.escape, word)) for word in words)

    chat_tokens = [token for tokens in CHAT_TOKENS.values() for token in tokens]
    words = {token.strip("[/]") for token in chat_tokens if token.startswith("[")}
    tokens = {token for token in chat_tokens if token.startswith("<")}
    beginnings = {token[1:] for token in tokens if not token.endswith(">")}
    # The second form of a token such as <<SYS>> is its inner tag.
    whole_names = {
        name
        for token in tokens
        if token.endswith(">")
        for name in (token[1:-1].lstrip("/"), token.strip("</>"))
    }
    lead = r"\s" if between else ""
    tags = (
        rf"[{lead}/\\!?]*(?:{spell((*FRAME_TAGS, *sorted(beginnings)))}|(?:{spell(sorted(whole_names))}){between}>)"
        # <|name|>, which most families of models use
        rf"|{between}\|{between}[^|<>\n]{{1,{_TOKEN_CHARS}}}\|{between}>"
    )
    return re.compile(
        rf"<(?={tags})|\[(?=[{lead}/]*(?:{spell(sorted(words))}){between}\])", re.IGNORECASE
    )


_ASCII_TAG: Final = _tag_pattern(r"\s*")
_TAG: Final = _tag_pattern()


def strip_invisible(text: str) -> str:
    """Return the text without invisible characters."""
    if not text.isascii():
        text = _STRAY_SELECTOR.sub("", _STRAY_JOINER.sub("", _INVISIBLE.sub("", text)))
    return text if text.isprintable() else _CONTROLS.sub(" ", text)


def neutralize_tags(text: str, *, replacement: str = "&lt;") -> str:
    """Return the text without invisible characters, frame tags and chat tokens; their `<` becomes `replacement`."""
    text = strip_invisible(text)
    if text.isascii():
        if "<" not in text and "[" not in text:
            return text
        return _ASCII_TAG.sub(lambda match: _replace_opener(match.group(), replacement), text)
    return text if _OPENER.search(text) is None else _neutralize_lookalikes(text, replacement)


def neutralize_json(value: Json) -> Json:
    """Return a JSON value with every text neutralized, including names."""
    if isinstance(value, str):
        return neutralize_tags(value)
    if isinstance(value, Mapping):
        return {neutralize_tags(name): neutralize_json(item) for name, item in value.items()}
    return [neutralize_json(item) for item in value] if isinstance(value, list | tuple) else value


def _replace_opener(opener: str, replacement: str) -> str:
    """Return what stands for the first character of a tag; `replacement` is that of `<`."""
    return replacement if opener == "<" else _BRACKET_REPLACEMENTS.get(replacement, "\u2045")


def _neutralize_lookalikes(text: str, replacement: str) -> str:
    """Replace the `<` of tags that lookalikes spell.

    It maps the text to a skeleton of plain letters, finds tags there, and replaces the characters at their positions.
    """
    skeleton: list[str] = []
    positions: list[int] = []
    for position, symbol in enumerate(text):
        for part in (
            symbol
            if symbol.isascii()
            else unicodedata.normalize("NFKD", _PLAIN_BY_LOOKALIKE.get(symbol, symbol))
        ):
            # Spaces and combining marks do not keep a reader from seeing the tag.
            if part.isspace() or unicodedata.category(part) in _IGNORED_CATEGORIES:
                continue
            lower = part.lower()[:1]
            skeleton.append(_PLAIN_BY_LOOKALIKE.get(part) or _PLAIN_BY_LOOKALIKE.get(lower, lower))
            positions.append(position)
    symbols = list(text)
    for match in _TAG.finditer("".join(skeleton)):
        symbols[positions[match.start()]] = _replace_opener(match.group(), replacement)
    return "".join(symbols)
