"""Text to tokens (section 2).

One regular expression splits the whole text, which is much faster than a loop in Python. It cannot fail: characters
that form no token of the language become a token that no grammar rule accepts. Tokens are plain strings; their kind
follows from their first character. Positions are computed by a second scan, and only when an error needs one.
"""

from __future__ import annotations

import math
import re
import unicodedata
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from memoranda.standards.cal import limits

# Section 16.6: controls that display a text in another order than it is stored.
BIDI: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")

_TOKEN: Final = re.compile(
    r"""(?:[ \t\r\n\f\v]++|--[^\r\n]*+)*+              # white space and comments
    (
      "[^"\\]*+(?:\\.[^"\\]*+)*+"                      # string
    | [sS][hH][aA]256:\w*+                             # hash, good or bad
    | [^\W\d]\w*+(?::[^\W\d]\w*+)?                     # word, or domain:field
    | \$\w*+                                           # parameter
    | [-+]?\.?\d[\w.]*+                                # number, good or bad
    | [!<>]=                                           # two-character operators
    | .                                                # one-character tokens, and everything else
    | \Z                                               # the end: an empty token
    )""",
    re.VERBOSE | re.DOTALL,
)
NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
DOMAIN_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*:[A-Za-z][A-Za-z0-9_]*")
HASH: Final = re.compile(r"sha256:[0-9a-f]{8,64}")
_PUNCTUATION: Final = frozenset("()[]{},:;|/=><") | {"!=", ">=", "<="}
_NUMBER_LIKE: Final = re.compile(r"[-+]?\.?\d")
_ESCAPE: Final = re.compile(r'\\(["\\])')

# Returns the text of every token; the last one is empty and marks the end.
split_tokens = _TOKEN.findall


class Span(NamedTuple):
    """Offsets of a token in the text, in characters; the end is exclusive."""

    start: int
    end: int


class TokenKind(Enum):
    """Kinds of tokens."""

    STRING = "string"
    NUMBER = "number"
    HASH = "hash"
    PARAMETER = "parameter"
    WORD = "word"
    DOMAIN_FIELD = "domain field"
    PUNCTUATION = "punctuation"
    END = "end"
    BAD = "bad"


class Token(NamedTuple):
    """A token with its kind and position, for prompts and editors; the parser works on bare texts."""

    kind: TokenKind
    text: str
    span: Span


def find_spans(text: str, start: int = 0) -> list[Span]:
    """Return the positions of the tokens of `split_tokens(text[start:])`, as offsets in the whole text."""
    return [Span(*match.span(1)) for match in _TOKEN.finditer(text, start)]


def tokenize(text: str) -> list[Token]:
    """Return all tokens with kind and position, without the end marker."""
    tokens = []
    for span in find_spans(text):
        token_text = text[span.start : span.end]
        kind = classify_token(token_text)
        if kind is not TokenKind.END:
            tokens.append(Token(kind, token_text, span))
    return tokens


def classify_token(token: str) -> TokenKind:
    """Return the kind of a token; BAD if the language has no such token."""
    if not token:
        return TokenKind.END
    first = token[0]
    if token in _PUNCTUATION:
        return TokenKind.PUNCTUATION
    if first == '"':
        return TokenKind.STRING if len(token) > 1 else TokenKind.BAD
    if first == "$":
        return TokenKind.PARAMETER if IDENTIFIER.fullmatch(token, 1) else TokenKind.BAD
    if token[:7].lower() == "sha256:":
        return TokenKind.HASH if HASH.fullmatch(token.lower()) else TokenKind.BAD
    if NUMBER.fullmatch(token):
        return TokenKind.NUMBER
    name, colon, field = token.partition(":")
    if not IDENTIFIER.fullmatch(name) or (colon and not IDENTIFIER.fullmatch(field)):
        return TokenKind.BAD
    return TokenKind.DOMAIN_FIELD if colon else TokenKind.WORD


class Flaw(NamedTuple):
    """A fault in a token or a text that is found before any grammar rule is applied."""

    code: str
    message: str
    suggestion: str
    span: Span = Span(0, 0)


def describe_bad_token(token: str) -> Flaw | None:
    """Return the fault of a BAD token.

    None if the token is not BAD, or if nothing more precise than "unexpected token" can be reported.
    """
    if classify_token(token) is not TokenKind.BAD:
        return None
    if token[0] == '"':
        return Flaw(
            "CAL-E005",
            "The string is not closed.",
            'Close it with ", and write \\" for a quote inside it.',
        )
    if token[:7].lower() == "sha256:":
        return Flaw(
            "CAL-E015",
            f"{quote_token(token)} is not a hash.",
            "Write sha256: and 8 to 64 hexadecimal digits, without quotes.",
        )
    if _NUMBER_LIKE.match(token):
        return Flaw(
            "CAL-E006",
            f"{quote_token(token)} is not a number.",
            "Write digits, such as 5, -2 or 0.75.",
        )
    if not token.isascii():
        return Flaw(
            "CAL-E002",
            f"{quote_token(token)} contains characters that are not ASCII.",
            "Words are written in the letters a to z; put other text in quotes.",
        )
    return None


def find_text_flaw(text: str, max_bytes: int = limits.QUERY_BYTES) -> Flaw | None:
    """Return the first fault of the text as a whole, or None: too long, not UTF-8, or with direction controls."""
    size = len(text)
    # A text with too many characters has too many bytes as well, so only others need to be encoded.
    if size <= max_bytes and not text.isascii():
        size = len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        return Flaw(
            "CAL-E001",
            f"The query has {size} bytes; at most {max_bytes} are allowed.",
            "Pass long values as parameters, or split the query.",
        )
    if text.isascii():
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return utf8_flaw(error.start)
    if match := BIDI.search(text):
        return Flaw(
            "CAL-E071",
            f"The query contains the direction control U+{ord(match[0]):04X}.",
            "Remove it: it displays the text in another order than it is stored.",
            Span(*match.span()),
        )
    return None


def utf8_flaw(offset: int) -> Flaw:
    """Return the fault for bytes that are not UTF-8, or for a string with half a surrogate pair."""
    return Flaw(
        "CAL-E070", f"The query is not UTF-8 at position {offset}.", "Send the query as UTF-8 text."
    )


def unquote(token: str) -> str:
    """Return the text of a string token: without quotes, escapes resolved, normalised to NFC."""
    text = token[1:-1]
    if "\\" in text:
        text = _ESCAPE.sub(r"\1", text)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of an offset; both count characters from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def quote_token(token: str) -> str:
    """Return a token in quotes for a message, cut after 40 characters."""
    return f'"{token}"' if len(token) <= 40 else f'"{token[:40]}…"'


@lru_cache(maxsize=1024)  # entries; most queries use the same few numbers
def parse_number(token: str) -> int | float | None:
    """Return the value of a number token, or None if it has none.

    Integers that do not fit into 63 bits become floats, as in JSON; floats that overflow have no value.
    """
    if not NUMBER.fullmatch(token):
        return None
    # A double has at most 308 digits before its point. The limit also keeps int() below its own limit of digits.
    if "." not in token and len(token) <= 308:
        integer = int(token)
        if abs(integer) <= limits.INTEGER_MAX:
            return integer
    return normalize_number(float(token))


def normalize_number(number: float) -> int | float | None:
    """Return a number as queries hold it: whole numbers as int; None for infinity and NaN."""
    if abs(number) <= limits.INTEGER_MAX:
        return int(number) if number == int(number) else number
    try:
        number = float(number)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
