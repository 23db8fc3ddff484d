"""What looks like a secret: keys of known vendors, private keys, tokens, passwords, PINs, card numbers, and strings too
random to be words.

A guess by shape, beside the invariant of `redaction`, which knows the very values. It is there to warn, or to redact
where the policy says so; it prefers to miss a secret over taking an id, a hash or a picture for one.

Everything here takes time linear in the text: quantifiers are possessive or bounded, and no pattern starts inside
what it has already read.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

Policy = Literal["off", "warn", "redact"]
# The shortest thing that is looked at.
_MIN_CHARS: Final = 8
_ROUNDS: Final = 8


class Finding(msgspec.Struct, frozen=True):
    """Where something looks like a secret, and what kind of secret. Never the secret itself."""

    kind: str
    start: int
    end: int


def detect(text: str) -> list[Finding]:
    """Everything in the text that looks like a secret, in order, without overlaps."""
    if len(text) < _MIN_CHARS:
        return []
    found = _guessed(text, text.lower())
    if not found:
        return found
    kept: list[Finding] = []
    for each in sorted(found, key=lambda finding: (finding.start, -finding.end)):
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
        elif each.end > kept[-1].end:
            # Two guesses at one thing: what either covers is hidden.
            kept[-1] = Finding(kept[-1].kind, kept[-1].start, each.end)
    return kept


def _guessed(text: str, lower: str) -> list[Finding]:
    """Everything that looks like a secret to any of those below, each asked only where one look says that it may."""
    found: list[Finding] = []
    if "-----BEGIN" in text:
        found += _private_keys(text)
    if _has(lower, _SAID_WORDS):
        found += _spoken(text)
    if (number := _NUMBER.search(text)) is not None:
        if _has(lower, _CODE_WORDS):
            found += _codes(text)
        if _MANY_NUMBERS.search(text, number.start()) is not None:
            found += _cards(text)
    if "=" in text or ":" in text:
        found += _assigned(text, lower)
    # Most texts have no word that could be a key, and need no closer look.
    if max(map(len, text.split()), default=0) >= _MIN_WORD_CHARS:
        found += _long_words(text, lower)
    return found


def _long_words(text: str, lower: str) -> list[Finding]:
    words = [word.span() for word in _LONG_WORD.finditer(text)]
    if not words:
        return []
    found = [*_known(text, words)]
    if _VALUE.search(text) is not None:
        found += _unnamed(text)
    if _has(lower, _BEARER_WORDS):
        found += _bearers(text)
    if any(end - start >= _MIN_RUN_CHARS for start, end in words):
        found += _random(text)
    return found


def hide(text: str, findings: Iterable[Finding]) -> str:
    """The text with each finding replaced by `[REDACTED:detected-<kind>]`."""
    pieces: list[str] = []
    at = 0
    for each in findings:
        pieces.extend((text[at : each.start], f"[REDACTED:detected-{each.kind}]"))
        at = each.end
    return "".join(pieces) + text[at:]


def screen(text: str, policy: Policy) -> tuple[str, list[Finding]]:
    """The text as the policy lets it pass, and what was found in it."""
    if policy == "off":
        return text, []
    findings = detect(text)
    if policy == "warn" or not findings:
        return text, findings
    passed = hide(text, findings)
    for _ in range(_ROUNDS):
        # Two keys without a space between them: with the first gone, the second begins a word.
        if not (more := detect(passed)):
            break
        passed = hide(passed, more)
    return passed, findings


# What looks random and is no secret: our own markers, pictures and other files in a data URI, base64 over several
# lines (certificates, attachments), hashes and signatures, DIDs and other names, public keys of SSH, CIDs.
_SPARED: Final = re.compile(
    r"\[REDACTED:[^\]\r\n]{1,160}\]"
    r"|data:[A-Za-z0-9.+/-]{0,100}(?:;[A-Za-z0-9=.+-]{1,100}){0,4};base64,[A-Za-z0-9+/=_-]*+"
    r"|(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{56,100}+[\"'`]?(?:\r?\n|\\n)[ \t]*+[\"'`]?)+[A-Za-z0-9+/]++={0,2}"
    r"|(?<![A-Za-z0-9])(?:sha(?:1|224|256|384|512)|SHA256|MD5|md5|blake[23][bs]?|h1|ed25519)"
    r"[-:=][A-Za-z0-9+/=_-]++"
    r"|(?<![A-Za-z0-9])(?:did|urn):[A-Za-z0-9]{1,32}:[A-Za-z0-9._:%#/?=-]*+"
    r"|(?<![A-Za-z0-9])(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-nistp\d{3})[ ]AAAA[A-Za-z0-9+/=]*+"
    r"|(?<![A-Za-z0-9])Qm[1-9A-HJ-NP-Za-km-z]{44}(?![A-Za-z0-9])",
    re.ASCII,
)


class _Spans:
    """Parts of a text that do not overlap, in order."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._spans = list(spans)

    def hold(self, span: tuple[int, int]) -> bool:
        """Whether one of them holds all of this."""
        at = bisect_right(self._spans, span[0], key=lambda each: each[0]) - 1
        return at >= 0 and span[1] <= self._spans[at][1]


# Keys of vendors are made of these characters and have at least fourteen; prose has few such words, and only those are
# looked at closely.
_MIN_WORD_CHARS: Final = 14
_LONG_WORD: Final = re.compile(rf"[A-Za-z0-9_.:/+=~@-]{{{_MIN_WORD_CHARS},}}+", re.ASCII)


def _known(text: str, words: Iterable[tuple[int, int]]) -> Iterator[Finding]:
    # So many patterns take a while to be made; most texts do not need them.
    from memoranda.encoding.vendors import KNOWN, kind_of

    for start, end in words:
        if KNOWN.search(text, start, end) is None:
            continue
        for match in KNOWN.finditer(text, start, end):
            kind = kind_of(text, match.start(), end)
            if kind != "openai-key" or _is_issued(match[0]):
                yield Finding(kind, *match.span())


def _is_issued(token: str) -> bool:
    """Whether what follows `sk-` was issued by a machine: `sk-learn-compatible-estimators` is what people write."""
    if sum(map(str.isdigit, token)) >= _MANY_DIGITS:
        return True
    return any(len(part) >= _LONG_PART and not (part.islower() or part.isupper()) for part in re.split("[-_]", token))


_MANY_DIGITS: Final = 3
_LONG_PART: Final = 20


# --- private keys ------------------------------------------------------------------------------------

_KEY_HEAD: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----", re.ASCII)
_KEY_TAIL: Final = "-----END "
_KEY_TAIL_LINE: Final = re.compile(r"-----END [A-Z0-9 ]{0,60}-----", re.ASCII)
# A body, if the text was cut off before its end: lines of base64, possibly written with \n as in JSON.
_KEY_BODY: Final = re.compile(r"(?:[A-Za-z0-9+/=]{16,}+|\s|\\[rn]|[A-Za-z-]{1,20}+:[ ][^\r\n\\]{0,80})*+", re.ASCII)
_KEY_LINE: Final = re.compile(r"[A-Za-z0-9+/=]{20}", re.ASCII)


def _private_keys(text: str) -> Iterator[Finding]:
    heads = list(_KEY_HEAD.finditer(text))
    tail = -1
    for index, head in enumerate(heads):
        limit = heads[index + 1].start() if index + 1 < len(heads) else len(text)
        if tail < head.end() and tail != len(text):
            tail = text.find(_KEY_TAIL, head.end())
            tail = len(text) if tail < 0 else tail
        if tail < limit:
            end_line = _KEY_TAIL_LINE.match(text, tail)
            body_end, end = tail, end_line.end() if end_line else tail
        else:
            body = _KEY_BODY.match(text, head.end(), limit)
            body_end = end = body.end() if body else head.end()
        # A heading in prose, or one with dots between, is no key.
        if _KEY_LINE.search(text, head.end(), body_end):
            yield Finding("private-key", head.start(), end)


# --- values that are called secret -------------------------------------------------------------------

_PLACEHOLDER: Final = re.compile(
    r"(?i:pass(?:word|wd|phrase)?|pwd|secrets?|tokens?|change[_-]?me|examples?|your[\w-]*|my[_-][\w-]*|user(?:name)?|"
    r"none|null|true|false|undefined|test|dummy|placeholder|redacted|hidden|x+|\.+|\*+|-+|_+|•+)"
    # What stands for a value: $NAME, ${NAME}, <name>, {{name}}, [name], %NAME%, IN_CAPITALS, call(), item[0], a.name.
    r"|\$\{?[A-Za-z_]\w*\}?|<[^>]*>|\{.*\}|\[.*\]|%[^%]*%|\$\(.*|[A-Z][A-Z_]*|[A-Za-z_][\w.]*[(\[].*"
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+",
    re.DOTALL,
)
_URL_PASSWORD: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}+://"
    r"[^\s:/@?#\"'<>\\]{0,128}+:(?P<value>[^\s/?#\"'<>\\]{3,256})@(?=[^\s/@])",
    re.ASCII,
)
_NAMED: Final = re.compile(
    r"(?:(?P<password>passw(?:or)?d|passphrase|pwd)|(?:secret|token|api[_-]?key|access[_-]?key|account[_-]?key"
    r"|private[_-]?key|credentials?)[\w.-]{0,16}+)[\"']?[ \t]{0,4}(?:=>|:=|=|:)[ \t]{0,4}[\"']?"
    r"(?P<value>[^\s\"'`;,&<>\\]{8,}+)",
    re.ASCII | re.IGNORECASE,
)
_NAMED_WORDS: Final = ("passw", "passphrase", "pwd", "secret", "token", "key", "credential")
_BEARER: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:bearer|basic)[ ](?P<value>[A-Za-z0-9._~+/=-]{20,}+)", re.ASCII | re.IGNORECASE
)
_BEARER_WORDS: Final = ("bearer ", "basic ")
_VALUE: Final = re.compile(r"[=:>,|][ \t\"'`=]{0,5}+(?P<value>[A-Za-z0-9_=-]{14,128}+)(?=[\s\"'`;,\\]|$)", re.ASCII)
_NAME_CHARS: Final = 40
_VENDOR_NAME: Final = re.compile(
    r"adafruit|adobe|airtable|algolia|alibaba|asana|atlassian|beamer|bitbucket|bittrex|cloudflare|codecov|cohere"
    r"|coinbase|confluen(?:t|ce)|contentful|datadog|discord|drone|dropbox|etsy|facebook|fastly|finicity|finnhub|flickr|freshbooks"
    r"|gitter|gocardless|heroku|hubspot|intercom|jfrog|artifactory|jira|kraken|kucoin|launchdarkly|linear|linkedin|looker"
    r"|mailchimp|mailgun|mapbox|mattermost|meraki|message_?bird|netlify|new[_-]?relic|nytimes|okta|openai|plaid|private_?ai"
    r"|rapidapi|sendbird|sentry|snyk|sonar|squarespace|sumologic|telegram|travis|twilio|twitch|twitter|typeform|yandex|zendesk",
    re.ASCII | re.IGNORECASE,
)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MAX_NAMED_CHARS: Final = 512
_MIN_TOKEN_CHARS: Final = 16
_FEW_CHARACTERS: Final = 6
# Neighbours of different class, see _RANDOM.
_WORDLIKE: Final = 0.3


def _assigned(text: str, lower: str) -> Iterator[Finding]:
    for match in _URL_PASSWORD.finditer(text) if "@" in text and "://" in text else ():
        if not _PLACEHOLDER.fullmatch(match["value"]):
            yield Finding("url-password", *match.span("value"))
    for match in _NAMED.finditer(text) if _has(lower, _NAMED_WORDS) else ():
        is_right = _is_password if match["password"] else _is_token
        if is_right(match["value"]):
            yield Finding("named-secret", *match.span("value"))


def _unnamed(text: str) -> Iterator[Finding]:
    for match in _VALUE.finditer(text):
        # Keys without a prefix of their own are told by whose they are.
        if _is_unnamed_key(match["value"]) and _VENDOR_NAME.search(
            text, max(0, match.start() - _NAME_CHARS), match.start()
        ):
            yield Finding("vendor-key", *match.span("value"))


def _is_unnamed_key(value: str) -> bool:
    """Whether what stands beside a vendor's name is a key: one word of letters and digits, or what looks random."""
    if _UUID.fullmatch(value) or _is_token(value):
        return True
    return value.isalnum() and sum(map(str.isdigit, value)) >= _MIN_DIGITS and any(map(str.isalpha, value))


def _has(lower: str, words: tuple[str, ...]) -> bool:
    """Whether a text has one of these; asked of every text, and sooner told than by `any`."""
    for word in words:  # noqa: SIM110
        if word in lower:
            return True
    return False


def _bearers(text: str) -> Iterator[Finding]:
    for match in _BEARER.finditer(text):
        if _is_token(match["value"]):
            yield Finding("authorization", *match.span("value"))


def _is_password(value: str) -> bool:
    """Whether what is called a password looks like one, and not like a word, a path, a date or a placeholder."""
    if len(value) > _MAX_NAMED_CHARS or value.startswith(("/", "./", "~/", "http://", "https://", "[REDACTED:")):
        return False
    if _PLACEHOLDER.fullmatch(value) or _UUID.fullmatch(value) or _DATE.match(value):
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and len(set(value)) >= _FEW_CHARACTERS


def _is_token(value: str) -> bool:
    """Whether what is called a token or a key looks like one. People also call short names of things so."""
    if len(value) < _MIN_TOKEN_CHARS or sum(map(str.isdigit, value)) < _MIN_DIGITS:
        return False
    return _is_password(value) and _changes(value) >= _WORDLIKE


# --- what people tell in a sentence ------------------------------------------------------------------

# What somebody calls a password, what it is for, and what it is; in the languages most notes are in.
_SAID: Final = re.compile(
    r"(?:pass(?:word|phrase|code|wd)|passwort|kennwort|mot de passe|contrase(?:ñ|n)a|senha|pwd)"
    r"[^.:=;!?\r\n\"'`]{0,60}?"
    r"(?:[ \t](?:is|was|ist|war|lautet|est|es|è|é|to|zu)|[ \t]?[:=→])[ \t](?:now[ \t]|still[ \t])?"
    r"(?:[\"'`“„«](?P<quoted>[^\"'`”“»\r\n]{6,64})[\"'`”“»]|(?P<bare>[^\s\"'`”“»„«,;]{6,128}+))",
    re.IGNORECASE,
)
_SAID_WORDS: Final = ("pass", "pwd", "kennwort", "contrase", "senha")
_CODE: Final = re.compile(
    r"(?:(?<![A-Za-z])PIN|(?i:pass[ ]?code|pin[ ](?:code|number)|cvv2?|cvc2?"
    r"|(?:door|gate|alarm|entry|security|lock|safe|unlock|garage|access|phone|card)(?:'s)?[ ](?:code|pin|combination)))"
    r"[^.:=;!?\d\r\n]{0,40}?(?:[ \t](?:is|was)|[ \t]?[:=])[ \t]{0,2}"
    r"(?P<value>[0-9](?:[ -]?[0-9]){2,9})(?![0-9A-Za-z]|[.:/-][0-9])",
)
_NUMBER: Final = re.compile(r"[0-9][0-9 -]{2}", re.ASCII)
_CODE_WORDS: Final = ("pin", "code", "cvv", "cvc", "combination")
_SYMBOL: Final = re.compile(r"[!@#$%^&*+=?~|]")
_MANY_WORDS: Final = 3


def _spoken(text: str) -> Iterator[Finding]:
    for match in _SAID.finditer(text):
        if match["quoted"] is not None and _is_phrase(match["quoted"]):
            yield Finding("password", *match.span("quoted"))
        elif match["bare"] is not None and _is_said(value := match["bare"].rstrip(".)")):
            yield Finding("password", match.start("bare"), match.start("bare") + len(value))


def _codes(text: str) -> Iterator[Finding]:
    for match in _CODE.finditer(text):
        is_on_card = match[0][:2].lower() == "cv"
        if is_on_card or sum(map(str.isdigit, match["value"])) > _FEW_DIGITS:
            yield Finding("pin", *match.span("value"))


_FEW_DIGITS: Final = 3


def _is_said(value: str) -> bool:
    """Whether what follows "the password is" is one: words of the sentence have no digits and signs in them."""
    if _is_password(value):
        return True
    if len(value) > _MAX_NAMED_CHARS or _PLACEHOLDER.fullmatch(value) or "://" in value:
        return False
    if _SYMBOL.search(value, 1) is not None and any(map(str.isalpha, value)):
        return len(set(value)) >= _FEW_CHARACTERS
    return value.count("-") >= _MANY_WORDS and len(value) >= 2 * _MIN_CHARS


def _is_phrase(value: str) -> bool:
    """The same of what stands in quotes, where a sentence can be a password."""
    words = value.split()
    return _is_said(value) or (len(words) > _MANY_WORDS and words[0].lower() not in _TELLING)


_TELLING: Final = frozenset("a an the your my our his her their must should not in on at".split())


# --- cards -------------------------------------------------------------------------------------------

_CARD: Final = re.compile(
    r"(?<![\w.+/=-])(?:[0-9]{13,19}|[0-9]{4}(?:[ -][0-9]{4}){3}(?:[ -][0-9]{1,3})?|[0-9]{4}[ -][0-9]{6}[ -][0-9]{4,5})"
    r"(?![\w/-]|\.[0-9])",
    re.ASCII,
)
# As many digits as the shortest has.
_MANY_NUMBERS: Final = re.compile(r"[0-9](?:[ -]?[0-9]){12}", re.ASCII)
# What the numbers of each brand begin with, and how many digits they have.
_BRANDS: Final = re.compile(
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})|(?:5[1-5]|2[2-7])[0-9]{14}|3[47][0-9]{13}|6(?:011|5[0-9]{2}|4[4-9][0-9])[0-9]{12}"
    r"|35[2-8][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|62[0-9]{14,17}",
    re.ASCII,
)


def _cards(text: str) -> Iterator[Finding]:
    for match in _CARD.finditer(text):
        digits = match[0].replace(" ", "").replace("-", "")
        if _BRANDS.fullmatch(digits) and len(set(digits)) > 1 and _has_check_digit(digits):
            yield Finding("card-number", *match.span())


def _has_check_digit(digits: str) -> bool:
    """ISO/IEC 7812: every second digit from the right counts twice."""
    doubled = (int(each) * 2 for each in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(each - 9 if each > 9 else each for each in doubled)) % 10 == 0


# --- what is too random to be words ------------------------------------------------------------------

_MIN_RUN_CHARS: Final = 32
_RUN: Final = re.compile(rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{_MIN_RUN_CHARS},}}+={{0,2}}", re.ASCII)
# Shorter than that are most ids that services hand out (ULID 26, KSUID 27, message and request ids 24 to 30).
# Longer than this are files, not keys.
_MAX_RUN_CHARS: Final = 256
_MIN_DISTINCT: Final = 16
_MIN_LETTERS: Final = 4
_MIN_DIGITS: Final = 2
# How often neighbours differ in being lower case, upper case or digit: 0.62 in random base62, 0.3 in CamelCase2Words.
_RANDOM: Final = 0.45
_HEX: Final = re.compile(r"(?:0[xX])?[0-9a-fA-F]+|[0-9A-Fa-f-]+", re.ASCII)
_URL_LOOKBACK_CHARS: Final = 256
_URL_BEFORE: Final = re.compile(r"https?://[^\s\"'<>()?#]*\Z", re.ASCII)
# How files begin in base64: PNG, JPEG, GIF, WebP/WAV, SVG, XML, PDF, ZIP, gzip, fonts; and binary with zero bytes.
_FILE_HEADS: Final = (
    "iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "PHN2Zy", "PD94bW", "JVBERi", "UEsDB", "H4sI", "d09GM", "AAAA",
)  # fmt: skip
_FROM_URL: Final = str.maketrans("-_", "+/")
_PRINTABLE: Final = frozenset((9, 10, 13, *range(32, 127)))


def _random(text: str) -> Iterator[Finding]:
    tokens = [match for match in _RUN.finditer(text) if _is_key(match[0])]
    spared = _Spans(match.span() for match in _SPARED.finditer(text)) if tokens else _Spans(())
    for match in tokens:
        # Ids of documents in links are as random as keys; what is secret in a link has a prefix or a name.
        before = text[max(0, match.start() - _URL_LOOKBACK_CHARS) : match.start() + 2]
        if not spared.hold(match.span()) and not _URL_BEFORE.search(before):
            yield Finding("high-entropy", *match.span())


def _is_key(token: str) -> bool:
    if len(token) > _MAX_RUN_CHARS or token.startswith(_FILE_HEADS):
        return False
    return _is_random(token) and not _is_written(token)


def _is_written(token: str) -> bool:
    """Whether it is some text in base64, such as a cursor: a key would decode to anything but words."""
    padded = token.rstrip("=").translate(_FROM_URL)
    try:
        decoded = base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True)
    except ValueError:
        return False
    return all(byte in _PRINTABLE for byte in decoded)


def _is_random(token: str) -> bool:
    """Letters of both cases and digits, many different ones, in no order that words have. Hashes in hex are not."""
    bare = _UUID.sub("", token)
    if len(set(bare)) < _MIN_DISTINCT or _HEX.fullmatch(bare):
        return False
    upper, lower, digits = (sum(map(test, bare)) for test in (str.isupper, str.islower, str.isdigit))
    if min(upper, lower) < _MIN_LETTERS or digits < _MIN_DIGITS:
        return False
    return _changes(bare) >= _RANDOM


def _changes(token: str) -> float:
    """Which part of neighbouring letters and digits differ in class."""
    classes = [
        "d" if each.isdigit() else "u" if each.isupper() else "l" for each in token if each.isalnum() and each.isascii()
    ]
    if len(classes) < 2:
        return 0.0
    return sum(map(str.__ne__, classes, classes[1:])) / (len(classes) - 1)
