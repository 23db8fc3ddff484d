"""Who speaks, who is named, and which days a question means."""

from __future__ import annotations

import pytest

from memoranda.retrieval.analysis import dates_in, name_of, names_in, speaker_of


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


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("What happened on 8 May 2023?", [(2023, 5, 8)]),
        ("What happened on May 8th, 2023?", [(2023, 5, 8)]),
        ("on the 3rd of June", [(0, 6, 3)]),
        ("on 2023-05-08", [(2023, 5, 8)]),
        ("in 2023-05", [(2023, 5, 0)]),
        ("What did she do in July?", [(0, 7, 0)]),
        ("What did she do in May 2022?", [(2022, 5, 0)]),
        ("May I come in?", []),
        ("They march on", []),
        ("since March", [(0, 3, 0)]),
        ("no date at all", []),
        ("2023-19-99", []),
    ],
)
def test_the_days_that_a_question_names(text: str, dates: list[tuple[int, int, int]]) -> None:
    assert [(each.year, each.month, each.day) for each in dates_in(text)] == dates
