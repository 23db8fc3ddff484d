"""Precision and recall of the detection of secrets, on sets of our own.

The labelled set is generated from the formats in `secrets.txt`, which were written from the vendors' documentation, in
the contexts in which people and programs leave credentials. The prose is that of the notes, the pages and the
changelog: everything found there is a false alarm.
"""

from __future__ import annotations

import json
import random
import re
import string
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.figures import Figures, say
from memoranda.encoding.detection import detect, hide

ROOT: Final = Path(__file__).parents[1]
FORMATS: Final = Path(__file__).with_name("secrets.txt")
_ALPHABETS: Final = {
    "h": "0123456789abcdef",
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits,
    "d": string.digits,
    "b": string.ascii_letters + string.digits,
    "s": string.ascii_letters + string.digits + "_-",
    "a": string.ascii_letters + string.digits + "+/",
}
_RANDOM: Final = re.compile(r"\{(\d+):([a-z])\}")
_CONTEXTS: Final = (
    "{}",
    "The key for the staging account is {}, please keep it.",
    "export SERVICE_KEY={}",
    '{{"name": "prod", "value": "{}"}}',
    "- user asked about the deploy\n- {} was pasted\n- rotate it on Monday",
    "curl -H 'X-Key: {}' https://api.example.com/v1/items",
    "name,value\nprod,{}\n",
)
_AWS_CONTEXTS: Final = ("{id} {}", "{id},{}", "the secret of my AWS account: {}", "aws_secret_access_key = {}")
_AWS_SECRET: Final = "aws secret access key"
_SAMPLES: Final = 20


def measure_secrets(*, quick: bool) -> Figures:
    """Return the share of labelled secrets that are found, and the false alarms in prose."""
    figures: Figures = {}
    count = found = 0
    missed: dict[str, int] = {}
    for kind, text, secret in labelled(3 if quick else _SAMPLES):
        count += 1
        is_found = secret not in hide(text, detect(text))
        found += is_found
        missed[kind] = missed.get(kind, 0) + (not is_found)
    figures["secrets.labelled.count"] = count
    figures["secrets.labelled.recall"] = round(found / count, 4)
    texts = list(prose())
    begin = time.process_time()
    alarms = [text for text in texts if detect(text)]
    seconds = time.process_time() - begin
    figures["secrets.prose.texts"] = len(texts)
    figures["secrets.prose.false_alarms"] = len(alarms)
    figures["secrets.prose.precision"] = round(1 - len(alarms) / len(texts), 4)
    figures["secrets.prose.us_per_text"] = round(seconds / len(texts) * 1e6, 1)
    worst = sorted(((number, kind) for kind, number in missed.items() if number), reverse=True)[:5]
    say(f"secrets: {figures['secrets.labelled.recall']:.1%} found, {len(alarms)} false alarms; missed most: {worst}")
    return figures


def labelled(samples: int) -> Iterator[tuple[str, str, str]]:
    """Yield the kind of a secret, a text that holds it, and the secret."""
    rng = random.Random(24)
    for line in FORMATS.read_text().splitlines():
        if line.startswith("#"):
            continue
        kind, template = (part.strip() for part in line.split("|"))
        for number in range(samples):
            secret = _RANDOM.sub(lambda part: _draw(rng, part[2], int(part[1])), template)
            if kind == _AWS_SECRET:
                # It has no form of its own: only its key id or its name tells what it is.
                context = _AWS_CONTEXTS[number % len(_AWS_CONTEXTS)]
                yield kind, context.format(secret, id="AKIA" + _draw(rng, "u", 16)), secret
            else:
                yield kind, _CONTEXTS[number % len(_CONTEXTS)].format(secret), secret


def _draw(rng: random.Random, alphabet: str, count: int) -> str:
    return "".join(rng.choices(_ALPHABETS[alphabet], k=count))


def prose() -> Iterator[str]:
    """Yield texts that hold no secret."""
    notes = json.loads((ROOT / "bench" / "retrieval" / "notes.json").read_text())
    for group in notes.values() if isinstance(notes, dict) else [notes]:
        if isinstance(group, list):
            yield from (str(note["text"]) for note in group if isinstance(note, dict) and "text" in note)
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    for page in pages:
        yield from (part for part in page.read_text(encoding="utf-8").split("\n\n") if part.strip())
