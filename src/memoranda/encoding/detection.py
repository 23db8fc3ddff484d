"""Detection of text that looks like a secret: vendor keys, private keys, tokens, passwords, PINs, card numbers, random
strings.

This guesses by shape; `redaction` replaces the exact values of a run's secrets. The findings serve to warn, or to
redact if the policy demands it. The patterns prefer to miss a secret over mistaking an id, a hash or a picture for one.

Each family of patterns has a cheap precondition (a substring or a character class), so that most texts skip most
patterns. Everything takes time linear in the text: quantifiers are possessive or bounded, and no pattern starts inside
text that it has already read.

How to change a pattern: add texts that it must find and texts that it must not find to
`tests/encoding/test_detection.py` first; false alarms on ordinary notes are worse than a missed odd key, because people
switch the check off. Then measure: every write passes here.
"""

from __future__ import annotations

import base64
import operator
import re
import string
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

Policy = Literal["off", "warn", "redact"]
# Characters of the shortest text that is examined.
_MIN_CHARS: Final = 8
# Rounds of detection after redaction; see `screen`.
_REDACTION_ROUNDS: Final = 8


class Finding(msgspec.Struct, frozen=True):
    """The position and kind of a possible secret; never the secret itself."""

    kind: str
    start: int
    end: int


def detect(text: str) -> list[Finding]:
    """Return everything in the text that looks like a secret, in order, without overlaps.

    Overlapping findings are joined; the first kind wins. Texts shorter than any secret are skipped.
    """
    if len(text) < _MIN_CHARS:
        return []
    findings = _find_all(text, text.lower())
    if not findings:
        return findings
    merged_findings: list[Finding] = []
    for finding in sorted(findings, key=lambda finding: (finding.start, -finding.end)):
        if not merged_findings or finding.start >= merged_findings[-1].end:
            merged_findings.append(finding)
        elif finding.end > merged_findings[-1].end:
            # Two overlapping findings become one that covers both.
            merged_findings[-1] = Finding(
                merged_findings[-1].kind, merged_findings[-1].start, finding.end
            )
    return merged_findings


def _find_all(text: str, lower: str) -> list[Finding]:
    """Run each family of patterns whose precondition the text meets; findings may overlap."""
    findings: list[Finding] = []
    if "-----BEGIN" in text:
        findings += _find_private_keys(text)
    if _contains_any(lower, _STATED_PASSWORD_WORDS):
        findings += _find_stated_passwords(text)
    if (number := _NUMBER.search(text)) is not None:
        if _contains_any(lower, _CODE_WORDS):
            findings += _find_codes(text)
        if _MANY_NUMBERS.search(text, number.start()) is not None:
            findings += _find_cards(text)
    if "=" in text or ":" in text:
        findings += _find_assigned(text, lower)
    # Most texts have no word long enough for a key and need no further patterns.
    if max(map(len, text.split()), default=0) >= _MIN_WORD_CHARS:
        findings += _find_in_long_words(text, lower)
    return findings


def _find_in_long_words(text: str, lower: str) -> list[Finding]:
    """Run the patterns that need a long word."""
    words = [word.span() for word in _LONG_WORD.finditer(text)]
    if not words:
        return []
    findings = [*_find_vendor_keys(text, words)]
    if any(end - start >= _AWS_SECRET_CHARS for start, end in words):
        findings += _find_aws_secrets(text, lower, findings)
    if _VALUE.search(text) is not None:
        findings += _find_unnamed(text)
    if _contains_any(lower, _BEARER_WORDS):
        findings += _find_bearers(text)
    if any(end - start >= _MIN_RUN_CHARS for start, end in words):
        findings += _find_random(text)
    return findings


def hide(text: str, findings: Iterable[Finding]) -> str:
    """Return the text with each finding replaced by `[REDACTED:detected-<kind>]`."""
    pieces: list[str] = []
    end = 0
    for finding in findings:
        pieces.extend((text[end : finding.start], f"[REDACTED:detected-{finding.kind}]"))
        end = finding.end
    return "".join(pieces) + text[end:]


def screen(text: str, policy: Policy) -> tuple[str, list[Finding]]:
    """Return the text as the policy permits it, and the findings in the original text.

    `policy` is `off`, `warn` or `redact`; only the last changes the text.
    """
    if policy == "off":
        return text, []
    findings = detect(text)
    if policy == "warn" or not findings:
        return text, findings
    redacted = hide(text, findings)
    for _ in range(_REDACTION_ROUNDS):
        # Two keys may be adjacent: after the removal of the first, the second begins a word.
        if not (remaining := detect(redacted)):
            break
        redacted = hide(redacted, remaining)
    return redacted, findings


# Random strings that are not secrets: our own markers, pictures and other files in a data URI, base64 over several
# lines (certificates, attachments), hashes and signatures, DIDs and URNs, public keys of SSH, CIDs.
_HARMLESS: Final = re.compile(
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
    """Sorted parts of a text that do not overlap."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._spans = list(spans)

    def hold(self, span: tuple[int, int]) -> bool:
        """Return True if one of the parts contains the span."""
        index = bisect_right(self._spans, span[0], key=lambda part: part[0]) - 1
        return index >= 0 and span[1] <= self._spans[index][1]


# Characters of the shortest vendor key. Prose has few words of this length, and only those are examined.
_MIN_WORD_CHARS: Final = 14
_LONG_WORD: Final = re.compile(rf"[A-Za-z0-9_.:/+=~@-]{{{_MIN_WORD_CHARS},}}+", re.ASCII)


def _find_vendor_keys(text: str, words: Iterable[tuple[int, int]]) -> Iterator[Finding]:
    """Yield keys with the prefix of a known vendor."""
    # Compiling so many patterns is slow, and most texts do not need them, so they are imported here.
    from memoranda.encoding.vendors import ANY_KEY, kind_of

    for start, end in words:
        if ANY_KEY.search(text, start, end) is None:
            continue
        for match in ANY_KEY.finditer(text, start, end):
            kind = kind_of(text, match.start(), end)
            if kind != "openai-key" or _is_issued(match[0]):
                yield Finding(kind, *match.span())


# A secret access key of AWS has no prefix. It is known by the access key id near it, or by the name AWS.
_AWS_SECRET_CHARS: Final = 40
_AWS_SECRET: Final = re.compile(
    rf"(?<![A-Za-z0-9/+_.-])[A-Za-z0-9/+]{{{_AWS_SECRET_CHARS}}}(?![A-Za-z0-9/+=_-])", re.ASCII
)
# Characters between a secret and its access key id, and between a secret and the name.
_AWS_NEAR_CHARS: Final = 300
_AWS_NAME_CHARS: Final = 80
_AWS_KEY_ID: Final = "aws-access-key"
_AWS_NAME: Final = re.compile(r"aws|amazon|s3", re.IGNORECASE)


def _find_aws_secrets(text: str, lower: str, keys: Iterable[Finding]) -> Iterator[Finding]:
    """Yield secret access keys near an access key id, or after the words "AWS" and "secret"."""
    key_ids = [key for key in keys if key.kind == _AWS_KEY_ID]
    if not key_ids and "secret" not in lower:
        return
    for match in _AWS_SECRET.finditer(text):
        start, end = match.span()
        is_near = any(
            key.start - _AWS_NEAR_CHARS <= end and start <= key.end + _AWS_NEAR_CHARS
            for key in key_ids
        )
        before = lower[max(0, start - _AWS_NAME_CHARS) : start]
        is_named = "secret" in before and _AWS_NAME.search(before) is not None
        if (is_near or is_named) and _is_mixed(match[0]):
            yield Finding("aws-secret-key", start, end)


def _is_mixed(token: str) -> bool:
    """Return True for letters of both cases and digits: a hash has one case, and a path or a word no digits."""
    tests = (str.isupper, str.islower, str.isdigit)
    return all(any(map(test, token)) for test in tests) and len(set(token)) >= _MIN_DISTINCT


def _is_issued(token: str) -> bool:
    """Return True if an `sk-` token looks generated, unlike `sk-learn-compatible-estimators`."""
    if sum(map(str.isdigit, token)) >= _MANY_DIGITS:
        return True
    long_parts = (part for part in re.split("[-_]", token) if len(part) >= _LONG_PART)
    return any(not (part.islower() or part.isupper()) for part in long_parts)


# Digits, and characters of a part, that make an `sk-` token look generated.
_MANY_DIGITS: Final = 3
_LONG_PART: Final = 20


# --- private keys ------------------------------------------------------------------------------------

_KEY_HEAD: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----", re.ASCII)
_KEY_TAIL: Final = "-----END "
_KEY_TAIL_LINE: Final = re.compile(r"-----END [A-Z0-9 ]{0,60}-----", re.ASCII)
# The body of a key whose end is missing: lines of base64, possibly with \n escaped as in JSON.
_KEY_BODY: Final = re.compile(
    r"(?:[A-Za-z0-9+/=]{16,}+|\s|\\[rn]|[A-Za-z-]{1,20}+:[ ][^\r\n\\]{0,80})*+", re.ASCII
)
_KEY_LINE: Final = re.compile(r"[A-Za-z0-9+/=]{20}", re.ASCII)


def _find_private_keys(text: str) -> Iterator[Finding]:
    """Yield PEM and PGP private keys, also without their end line."""
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
        # A heading in prose, or one followed by dots, is not a key.
        if _KEY_LINE.search(text, head.end(), body_end):
            yield Finding("private-key", head.start(), end)


# --- values that are called secret -------------------------------------------------------------------

_PLACEHOLDER: Final = re.compile(
    r"(?i:pass(?:word|wd|phrase)?|pwd|secrets?|tokens?|change[_-]?me|examples?|your[\w-]*|my[_-][\w-]*|user(?:name)?|"
    r"none|null|true|false|undefined|test|dummy|placeholder|redacted|hidden|x+|\.+|\*+|-+|_+|•+)"
    # Placeholders: $NAME, ${NAME}, <name>, {{name}}, [name], %NAME%, IN_CAPITALS, call(), item[0], a.name.
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
    r"(?<![A-Za-z0-9])(?:bearer|basic)[ ](?P<value>[A-Za-z0-9._~+/=-]{20,}+)",
    re.ASCII | re.IGNORECASE,
)
_BEARER_WORDS: Final = ("bearer ", "basic ")
_VALUE: Final = re.compile(
    r"[=:>,|][ \t\"'`=]{0,5}+(?P<value>[A-Za-z0-9_=-]{14,128}+)(?=[\s\"'`;,\\]|$)", re.ASCII
)
# Characters in front of a value in which a vendor's name is searched.
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
# Characters of the longest value with a name, and of the shortest token.
_MAX_NAMED_CHARS: Final = 512
_MIN_TOKEN_CHARS: Final = 16
# Different characters that a password needs.
_FEW_CHARACTERS: Final = 6
# Minimum share of neighbouring characters that differ in class, see _MIN_RANDOM_CHANGES.
_MIN_TOKEN_CHANGES: Final = 0.3


def _find_assigned(text: str, lower: str) -> Iterator[Finding]:
    """Yield passwords in URLs, and values assigned to names such as `password` or `api_key`."""
    for match in _URL_PASSWORD.finditer(text) if "@" in text and "://" in text else ():
        if not _PLACEHOLDER.fullmatch(match["value"]):
            yield Finding("url-password", *match.span("value"))
    for match in _NAMED.finditer(text) if _contains_any(lower, _NAMED_WORDS) else ():
        is_secret = _is_password if match["password"] else _is_token
        if is_secret(match["value"]):
            yield Finding("named-secret", *match.span("value"))


def _find_unnamed(text: str) -> Iterator[Finding]:
    """Yield keys without a prefix of their own that follow a vendor's name."""
    for match in _VALUE.finditer(text):
        # Only the vendor's name before such a key identifies it.
        if _is_unnamed_key(match["value"]) and _VENDOR_NAME.search(
            text, max(0, match.start() - _NAME_CHARS), match.start()
        ):
            yield Finding("vendor-key", *match.span("value"))


def _is_unnamed_key(value: str) -> bool:
    """Return True if a value after a vendor's name is a key: one word of letters and digits, or a random string."""
    if _UUID.fullmatch(value) or _is_token(value):
        return True
    return (
        value.isalnum()
        and sum(map(str.isdigit, value)) >= _MIN_DIGITS
        and any(map(str.isalpha, value))
    )


def _contains_any(lower: str, words: tuple[str, ...]) -> bool:
    """Return True if the text has one of the words. This runs for every text and is faster than `any`."""
    for word in words:  # noqa: SIM110
        if word in lower:
            return True
    return False


def _find_bearers(text: str) -> Iterator[Finding]:
    """Yield tokens of an authorization header."""
    for match in _BEARER.finditer(text):
        if _is_token(match["value"]):
            yield Finding("authorization", *match.span("value"))


def _is_password(value: str) -> bool:
    """Return True if a value called a password looks like one, not like a word, a path, a date or a placeholder."""
    if len(value) > _MAX_NAMED_CHARS or value.startswith(
        ("/", "./", "~/", "http://", "https://", "[REDACTED:")
    ):
        return False
    if _PLACEHOLDER.fullmatch(value) or _UUID.fullmatch(value) or _DATE.match(value):
        return False
    return (
        any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and len(set(value)) >= _FEW_CHARACTERS
    )


def _is_token(value: str) -> bool:
    """Return True if a value called a token or a key looks like one. Short names are called that, too."""
    if len(value) < _MIN_TOKEN_CHARS or sum(map(str.isdigit, value)) < _MIN_DIGITS:
        return False
    return _is_password(value) and _class_changes(value) >= _MIN_TOKEN_CHANGES


# --- what people tell in a sentence ------------------------------------------------------------------

# A word for password, its purpose, a verb and the password; in the languages that most notes have.
_STATED_PASSWORD: Final = re.compile(
    r"(?:pass(?:word|phrase|code|wd)|passwort|kennwort|mot de passe|contrase(?:ñ|n)a|senha|pwd)"
    r"[^.:=;!?\r\n\"'`]{0,60}?"
    r"(?:[ \t](?:is|was|ist|war|lautet|est|es|è|é|to|zu)|[ \t]?[:=→])[ \t](?:now[ \t]|still[ \t])?"
    r"(?:[\"'`“„«](?P<quoted>[^\"'`”“»\r\n]{6,64})[\"'`”“»]|(?P<bare>[^\s\"'`”“»„«,;]{6,128}+))",
    re.IGNORECASE,
)
_STATED_PASSWORD_WORDS: Final = ("pass", "pwd", "kennwort", "contrase", "senha")
_CODE: Final = re.compile(
    r"(?:(?<![A-Za-z])PIN|(?i:pass[ ]?code|pin[ ](?:code|number)|cvv2?|cvc2?"
    r"|(?:door|gate|alarm|entry|security|lock|safe|unlock|garage|access|phone|card)(?:'s)?[ ](?:code|pin|combination)))"
    r"[^.:=;!?\d\r\n]{0,40}?(?:[ \t](?:is|was)|[ \t]?[:=])[ \t]{0,2}"
    r"(?P<value>[0-9](?:[ -]?[0-9]){2,9})(?![0-9A-Za-z]|[.:/-][0-9])",
)
_NUMBER: Final = re.compile(r"[0-9][0-9 -]{2}", re.ASCII)
_CODE_WORDS: Final = ("pin", "code", "cvv", "cvc", "combination")
_SYMBOL: Final = re.compile(r"[!@#$%^&*+=?~|]")
# Words of a passphrase, at least one more.
_MANY_WORDS: Final = 3


def _find_stated_passwords(text: str) -> Iterator[Finding]:
    """Yield passwords that a sentence states."""
    for match in _STATED_PASSWORD.finditer(text):
        if match["quoted"] is not None and _is_passphrase(match["quoted"]):
            yield Finding("password", *match.span("quoted"))
        elif match["bare"] is not None and _is_stated_password(value := match["bare"].rstrip(".)")):
            yield Finding("password", match.start("bare"), match.start("bare") + len(value))


def _find_codes(text: str) -> Iterator[Finding]:
    """Yield PINs and access codes that a sentence states."""
    for match in _CODE.finditer(text):
        is_on_card = match[0][:2].lower() == "cv"
        if is_on_card or sum(map(str.isdigit, match["value"])) > _FEW_DIGITS:
            yield Finding("pin", *match.span("value"))


# Digits of a number too short for a PIN; a card's security code may have so few.
_FEW_DIGITS: Final = 3


def _is_stated_password(value: str) -> bool:
    """Return True if the word after "the password is" is a password, because it has digits or symbols."""
    if _is_password(value):
        return True
    if len(value) > _MAX_NAMED_CHARS or _PLACEHOLDER.fullmatch(value) or "://" in value:
        return False
    if _SYMBOL.search(value, 1) is not None and any(map(str.isalpha, value)):
        return len(set(value)) >= _FEW_CHARACTERS
    return value.count("-") >= _MANY_WORDS and len(value) >= 2 * _MIN_CHARS


def _is_passphrase(value: str) -> bool:
    """Return True if a quoted text is a password; a sentence can be one."""
    words = value.split()
    return _is_stated_password(value) or (
        len(words) > _MANY_WORDS and words[0].lower() not in _SENTENCE_STARTS
    )


_SENTENCE_STARTS: Final = frozenset(
    "a an the your my our his her their must should not in on at".split()
)


# --- cards -------------------------------------------------------------------------------------------

_CARD: Final = re.compile(
    r"(?<![\w.+/=-])(?:[0-9]{13,19}|[0-9]{4}(?:[ -][0-9]{4}){3}(?:[ -][0-9]{1,3})?|[0-9]{4}[ -][0-9]{6}[ -][0-9]{4,5})"
    r"(?![\w/-]|\.[0-9])",
    re.ASCII,
)
# A number with at least as many digits as the shortest card number.
_MANY_NUMBERS: Final = re.compile(r"[0-9](?:[ -]?[0-9]){12}", re.ASCII)
# The first digits and the length of each brand's numbers.
_BRANDS: Final = re.compile(
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})|(?:5[1-5]|2[2-7])[0-9]{14}|3[47][0-9]{13}|6(?:011|5[0-9]{2}|4[4-9][0-9])[0-9]{12}"
    r"|35[2-8][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|62[0-9]{14,17}",
    re.ASCII,
)


def _find_cards(text: str) -> Iterator[Finding]:
    """Yield card numbers with a correct check digit."""
    for match in _CARD.finditer(text):
        digits = match[0].replace(" ", "").replace("-", "")
        if _BRANDS.fullmatch(digits) and len(set(digits)) > 1 and _has_check_digit(digits):
            yield Finding("card-number", *match.span())


def _has_check_digit(digits: str) -> bool:
    """Return True if the check digit of ISO/IEC 7812 is correct: every second digit from the right is doubled."""
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    # The sum of the digits of a doubled digit: 18 counts as 9.
    digit_sums = (number - 9 if number > 9 else number for number in doubled)
    return (sum(map(int, digits[-1::-2])) + sum(digit_sums)) % 10 == 0


# --- what is too random to be words ------------------------------------------------------------------

# Characters of the shortest and the longest random string. Most ids of services are shorter than that (ULID 26,
# KSUID 27, message and request ids 24 to 30); longer strings are files.
_MIN_RUN_CHARS: Final = 32
_MAX_RUN_CHARS: Final = 256
_RUN: Final = re.compile(
    rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{_MIN_RUN_CHARS},}}+={{0,2}}", re.ASCII
)
# Different characters, letters of each case, and digits that a random string must have.
_MIN_DISTINCT: Final = 16
_MIN_LETTERS: Final = 4
_MIN_DIGITS: Final = 2
# Minimum share of neighbouring characters that differ in being lower case, upper case or digit: 0.62 in random base62,
# 0.3 in CamelCase2Words.
_MIN_RANDOM_CHANGES: Final = 0.45
_HEX: Final = re.compile(r"(?:0[xX])?[0-9a-fA-F]+|[0-9A-Fa-f-]+", re.ASCII)
# Characters before a string in which the start of a URL is searched.
_URL_LOOKBACK_CHARS: Final = 256
_URL_BEFORE: Final = re.compile(r"https?://[^\s\"'<>()?#]*\Z", re.ASCII)
# The beginnings of files in base64: PNG, JPEG, GIF, WebP/WAV, SVG, XML, PDF, ZIP, gzip, fonts; and binary data with
# zero bytes.
_FILE_HEADS: Final = (
    "iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "PHN2Zy", "PD94bW", "JVBERi", "UEsDB", "H4sI", "d09GM", "AAAA",
)  # fmt: skip
_FROM_URL: Final = str.maketrans("-_", "+/")
_PRINTABLE: Final = frozenset((9, 10, 13, *range(32, 127)))


def _find_random(text: str) -> Iterator[Finding]:
    """Yield long random strings outside URLs and other harmless contexts."""
    tokens = [match for match in _RUN.finditer(text) if _is_key(match[0])]
    spared = _Spans(match.span() for match in _HARMLESS.finditer(text)) if tokens else _Spans(())
    for match in tokens:
        # Ids of documents in URLs are as random as keys. A secret in a URL has a prefix or a name.
        before = text[max(0, match.start() - _URL_LOOKBACK_CHARS) : match.start() + 2]
        if not spared.hold(match.span()) and not _URL_BEFORE.search(before):
            yield Finding("high-entropy", *match.span())


def _is_key(token: str) -> bool:
    """Return True if a string is random and neither a file nor encoded text."""
    if len(token) > _MAX_RUN_CHARS or token.startswith(_FILE_HEADS):
        return False
    return _is_random(token) and not _is_encoded_text(token)


def _is_encoded_text(token: str) -> bool:
    """Return True if the string is text in base64, such as a cursor; a key does not decode to printable text."""
    padded = token.rstrip("=").translate(_FROM_URL)
    try:
        decoded = base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True)
    except ValueError:
        return False
    return all(byte in _PRINTABLE for byte in decoded)


def _is_random(token: str) -> bool:
    """Return True for many different letters of both cases and digits in random order. False for hexadecimal hashes."""
    remaining = _UUID.sub("", token)
    if len(set(remaining)) < _MIN_DISTINCT or _HEX.fullmatch(remaining):
        return False
    upper, lower, digits = (
        sum(map(test, remaining)) for test in (str.isupper, str.islower, str.isdigit)
    )
    if min(upper, lower) < _MIN_LETTERS or digits < _MIN_DIGITS:
        return False
    return _class_changes(remaining) >= _MIN_RANDOM_CHANGES


# ASCII letters and digits → their class: digit, upper case, lower case.
_CLASSES: Final = bytes.maketrans(
    (string.digits + string.ascii_uppercase + string.ascii_lowercase).encode(),
    b"d" * 10 + b"u" * 26 + b"l" * 26,
)
_OTHER_ASCII: Final = bytes(byte for byte in range(128) if not chr(byte).isalnum())


def _class_changes(token: str) -> float:
    """Return the share of neighbouring letters and digits that differ in class."""
    classes = token.encode("ascii", "ignore").translate(_CLASSES, _OTHER_ASCII)
    if len(classes) < 2:
        return 0.0
    changes = int(sum(map(operator.ne, classes, classes[1:])))
    return changes / (len(classes) - 1)
