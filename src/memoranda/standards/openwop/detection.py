"""What looks like a secret: keys of known vendors, private keys, tokens, passwords, and strings too random to be words.

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
from dataclasses import dataclass
from typing import Final, Literal

Policy = Literal["off", "warn", "redact"]
# The shortest thing that is looked at.
_MIN_CHARS: Final = 8
_ROUNDS: Final = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """Where something looks like a secret, and what kind of secret. Never the secret itself."""

    kind: str
    start: int
    end: int


def detect(text: str) -> list[Finding]:
    """Everything in the text that looks like a secret, in order, without overlaps."""
    if len(text) < _MIN_CHARS:
        return []
    found = [*_private_keys(text), *_known(text), *_assigned(text), *_random(text)]
    kept: list[Finding] = []
    for each in sorted(found, key=lambda finding: (finding.start, -finding.end)):
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
        elif each.end > kept[-1].end:
            # Two guesses at one thing: what either covers is hidden.
            kept[-1] = Finding(kept[-1].kind, kept[-1].start, each.end)
    return kept


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


# Prefixes under which vendors issue credentials, as their documentation gives them.
_VENDORS: Final = (
    ("anthropic-key", r"sk-ant-[A-Za-z0-9_-]{20,}+"),
    ("openai-key", r"sk-[A-Za-z0-9_-]{20,}+"),
    ("stripe-key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+"),
    ("stripe-webhook-secret", r"whsec_[A-Za-z0-9+/=]{24,}+"),
    ("github-token", r"gh[pousr]_[A-Za-z0-9]{36,}+"),
    ("github-token", r"github_pat_[A-Za-z0-9_]{22,}+"),
    ("gitlab-token", r"gl(?:pat|dt|rt|cbt|ptt|ft|agent|oas|soat)-[A-Za-z0-9_.-]{20,}+"),
    ("aws-access-key", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("slack-token", r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}+"),
    ("slack-token", r"xapp-[0-9]-[A-Za-z0-9-]{10,}+"),
    ("slack-webhook", r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/+]{40,}+"),
    ("google-key", r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    ("google-secret", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    ("google-token", r"ya29\.[A-Za-z0-9_-]{20,}+"),
    ("sendgrid-key", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,}+"),
    ("huggingface-token", r"hf_[A-Za-z0-9]{30,}+"),
    ("npm-token", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    ("pypi-token", r"pypi-AgE[A-Za-z0-9_-]{50,}+"),
    ("shopify-token", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}(?![A-Za-z0-9])"),
    ("digitalocean-token", r"do[opr]_v1_[a-f0-9]{64}(?![A-Za-z0-9])"),
    ("databricks-token", r"dapi[a-f0-9]{32}(?![A-Za-z0-9])"),
    ("vault-token", r"hv[sbr]\.[A-Za-z0-9_-]{24,}+"),
    ("twilio-key", r"SK[a-f0-9]{32}(?![A-Za-z0-9])"),
    ("telegram-token", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    ("groq-key", r"gsk_[A-Za-z0-9]{40,}+"),
    ("xai-key", r"xai-[A-Za-z0-9]{60,}+"),
    ("nvidia-key", r"nvapi-[A-Za-z0-9_-]{40,}+"),
    ("perplexity-key", r"pplx-[A-Za-z0-9]{40,}+"),
    ("replicate-token", r"r8_[A-Za-z0-9]{37}(?![A-Za-z0-9])"),
    ("linear-key", r"lin_api_[A-Za-z0-9]{32,}+"),
    ("notion-token", r"(?:ntn_|secret_)[A-Za-z0-9]{43,}+"),
    ("age-secret-key", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    ("memoranda-key", r"mk_[A-Za-z0-9]{8,}+_[A-Za-z0-9_-]{20,}+"),
    ("ump-capability", r"umpcap\.[A-Za-z0-9_-]{20,}+\.[A-Za-z0-9_:-]{20,}+"),
    ("jwt", r"eyJ[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+"),
)
# Where a credential may begin: not inside a word.
_KNOWN: Final = re.compile(
    r"(?<![A-Za-z0-9_-])(?:" + "|".join(f"(?P<v{n}>{pattern})" for n, (_, pattern) in enumerate(_VENDORS)) + ")",
    re.ASCII,
)
_KNOWN_KINDS: Final = {f"v{n}": kind for n, (kind, _) in enumerate(_VENDORS)}


# All of them are made of these characters and have at least fourteen; prose has few such words, and only those are
# looked at closely.
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9_.:/+=-]{14,}+", re.ASCII)


def _known(text: str) -> Iterator[Finding]:
    for word in _LONG_WORD.finditer(text):
        for match in _KNOWN.finditer(text, *word.span()):
            kind = _KNOWN_KINDS[str(match.lastgroup)]
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
    heads = list(_KEY_HEAD.finditer(text)) if "-----BEGIN" in text else []
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
    r"(?:(?P<password>passw(?:or)?d|passphrase|pwd)|secret|token|api[_-]?key|access[_-]?key|account[_-]?key"
    r"|private[_-]?key|credentials?)[\"']?[ \t]{0,4}(?:=>|:=|=|:)[ \t]{0,4}[\"']?(?P<value>[^\s\"'`;,&<>\\]{8,}+)",
    re.ASCII | re.IGNORECASE,
)
_BEARER: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:bearer|basic)[ ](?P<value>[A-Za-z0-9._~+/=-]{20,}+)", re.ASCII | re.IGNORECASE
)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MAX_NAMED_CHARS: Final = 512
_MIN_TOKEN_CHARS: Final = 16
_FEW_CHARACTERS: Final = 6
# Neighbours of different class, see _RANDOM.
_WORDLIKE: Final = 0.3


def _assigned(text: str) -> Iterator[Finding]:
    for match in _URL_PASSWORD.finditer(text) if "://" in text else ():
        if not _PLACEHOLDER.fullmatch(match["value"]):
            yield Finding("url-password", *match.span("value"))
    for match in _NAMED.finditer(text):
        is_right = _is_password if match["password"] else _is_token
        if is_right(match["value"]):
            yield Finding("named-secret", *match.span("value"))
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


# --- what is too random to be words ------------------------------------------------------------------

_RUN: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{32,}+={0,2}", re.ASCII)
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
