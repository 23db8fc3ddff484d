"""Every sentence of the founding documents has a row of a standard's table, or a reason."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from tests.test_requirements import requirements

TABLE = Path(__file__).with_name("founding.toml")
SENTENCES: list[dict[str, Any]] = tomllib.loads(TABLE.read_text("utf-8"))["sentence"]


def test_every_sentence_of_the_founding_documents_has_a_row_or_a_reason() -> None:
    known = {requirement["id"] for requirement in requirements()}
    for sentence in SENTENCES:
        assert set(sentence) <= {"document", "section", "text", "rows", "reason"}
        assert bool(sentence.get("rows")) != bool(sentence.get("reason")), sentence
        assert set(sentence.get("rows", ())) <= known, sentence
    texts = [(sentence["document"], sentence["section"], sentence["text"]) for sentence in SENTENCES]
    assert len(set(texts)) == len(texts)
    assert len(Counter(sentence["document"] for sentence in SENTENCES)) == 5
