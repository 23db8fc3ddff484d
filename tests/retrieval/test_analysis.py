"""Who speaks and who is named."""

from __future__ import annotations

import pytest

from memoranda.retrieval.analysis import name_of, names_in, speaker_of


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("Caroline: Hey Mel!", "caroline"),
        ("Ada Lovelace: it works", "ada"),
        ("Zoë: ça va", "zoe"),
        ("note: buy milk", ""),
        ("Prefers tea: always", ""),
        ("https://example.org/x", ""),
        ("12:30 is lunch", ""),
        ("", ""),
    ],
)
def test_who_speaks_is_read_from_the_text(text: str, speaker: str) -> None:
    assert speaker_of(text) == speaker


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("person:ada-7", "ada"),
        ("Ada Lovelace", "ada"),
        ("urn:x:Grace Hopper", "grace"),
        ("42", ""),
        ("", ""),
        ("zeppelin", ""),
        ("did:key:z6Mk", ""),
    ],
)
def test_whom_a_subject_names(subject: str, name: str) -> None:
    assert name_of(subject) == name


@pytest.mark.parametrize("subject", ["", "42", "zeppelin", "did:key:z6Mk"])
def test_a_thing_is_no_person(subject: str) -> None:
    assert name_of(subject) == ""


def test_every_word_of_a_question_may_be_a_name() -> None:
    assert names_in("What did Zoë's sister say to Ada?") == ("what", "did", "zoe", "sister", "say", "to", "ada")
    assert len(names_in(" ".join(f"w{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(500)))) == 64
