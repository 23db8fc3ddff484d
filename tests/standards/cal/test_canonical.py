"""Canonical text and query hash."""

from __future__ import annotations

import pytest

from memoranda.standards.cal.language.canonical import canonical, query_hash
from memoranda.standards.cal.language.parser import parse

H = "sha256:aaaaaaaa"


@pytest.mark.requirement("CAL-15-query-hash")
@pytest.mark.parametrize(
    ("text", "spelled", "digest"),
    [
        (
            'recall beliefs recent 5 -- c\n about "alice" where confidence>=0.80 format markdown',
            'CAL/1 RECALL beliefs ABOUT "alice" WHERE confidence >= 0.8 RECENT 5 AS markdown',
            "cf46d34e2dd91e01d5ef15b927d51435e27c1f2c05ded6bb75941124d8130606",
        ),
        (
            "RECALL beliefs LIMIT 5",
            "CAL/1 RECALL beliefs | LIMIT 5",
            "607dc0522d1807572c3623e5c758bd48712cc878d689e195196fe278ad759f21",
        ),
    ],
)
def test_the_worked_queries_have_their_text_and_hash(text: str, spelled: str, digest: str) -> None:
    assert canonical(parse(text)) == spelled
    assert query_hash(parse(text)) == f"sha256:{digest}"


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("recall", "RECALL"),
        ('RECALL MY goals IN SCOPE "n"', 'RECALL MY goals IN SCOPE "n"'),
        ("RECALL ORDER BY TIME", "RECALL | ORDER BY time ASC"),
        ("RECALL BETWEEN 1 AND 2", "RECALL BETWEEN 1 AND 2"),
        (f"RECALL events THREAD FROM {H.upper()}", f"RECALL events THREAD FROM {H}"),
        ('RECALL ABOUT "a\\"\\\\b\\c"', 'RECALL ABOUT "a\\"\\\\b\\\\c"'),
        ("RECALL WHERE hc:X=[1.50,-0,TRUE,[]]", "RECALL WHERE hc:x = [1.5, 0, true, []]"),
        ("RECALL WHERE hc:x = 0.0000001", "RECALL WHERE hc:x = 0.0000001"),
        ("RECALL WHERE hc:x = 100000000000000000000", "RECALL WHERE hc:x = 100000000000000000000"),
        ('RECALL WHERE relation is agency AND subject in("a","b")',
         'RECALL WHERE relation IS AGENCY AND subject IN ("a", "b")'),
        ("RECALL WITH diversity(mmr,lambda=0.30),cache(ttl=060)",
         "RECALL WITH diversity(mmr, lambda = 0.3), cache(ttl = 60)"),
        ("RECALL WITH consistency(bounded(5)),x_a(1)", "RECALL WITH consistency(bounded(5)), x_a(1)"),
        ("RECALL PROJECT attr(type),content(object)", "RECALL | PROJECT content(object), attr(type)"),
        ("ASSEMBLE FROM a:(RECALL) STREAM FORMAT toon BUDGET 5 GRAINS",
         "ASSEMBLE FROM a: (RECALL) BUDGET 5 grains FORMAT toon STREAM { all }"),
        ("((RECALL)UNION(RECALL))EXCEPT(RECALL)", "(RECALL) UNION (RECALL) EXCEPT (RECALL)"),
        ("COALESCE ( RECALL , RECALL )", "COALESCE(RECALL, RECALL)"),
        ("BATCH{a:DESCRIBE FIELDS BELIEF,b:RECALL}", "BATCH { a: DESCRIBE fields belief, b: RECALL }"),
        ('HISTORY IN "n" WHERE subject="s" AND relation=$r AS OF "now"',
         'HISTORY IN "n" WHERE subject = "s" AND relation = $r AS OF "now"'),
        (f"explain history {H} diff {H}", f"EXPLAIN HISTORY {H} DIFF {H}"),
        ("LET $x=RECALL|HASHES;RECALL", "LET $x = RECALL | HASHES ; RECALL"),
    ],
)  # fmt: skip
def test_a_query_has_one_spelling(text: str, spelled: str) -> None:
    query = parse(text)
    assert canonical(query) == f"CAL/1 {spelled}"
    assert parse(canonical(query)) == query


def test_other_queries_have_other_hashes() -> None:
    texts = [
        "RECALL",
        "RECALL beliefs",
        "RECALL beliefs LIMIT 1",
        "RECALL LIMIT $n",
        'RECALL ABOUT "a"',
        "RECALL LIMIT 1",
    ]
    assert len({query_hash(parse(text)) for text in texts}) == len(texts)
