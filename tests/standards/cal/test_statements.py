"""The statements beside RECALL: shapes, limits, codes."""

from __future__ import annotations

import pytest
from tests.standards.cal.verdicts import code_of, place_of

from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import Assemble, AssembleSource, SetOp, StreamOptions

H = "sha256:aaaaaaaa"
TRIPLE = 'SET subject = "s" SET relation = "r" SET object = "o"'


@pytest.mark.requirement("CAL-8.2-assemble")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ASSEMBLE FROM (RECALL)", None),
        ('ASSEMBLE c FOR "x" FROM a: (RECALL), (RECALL), $l, d: ($l)', "CAL-E008"),
        ('LET $l = RECALL; ASSEMBLE c FOR "x" FROM a: (RECALL), (RECALL), $l, d: ($l)', None),
        ("ASSEMBLE c", "CAL-E002"),
        ("ASSEMBLE c FROM", "CAL-E002"),
        ("ASSEMBLE c FROM RECALL", "CAL-E002"),
        ("ASSEMBLE c FROM a (RECALL)", "CAL-E002"),
        ("ASSEMBLE c FROM a: (RECALL", "CAL-E002"),
        ("ASSEMBLE c FROM a: (EXISTS sha256:aaaaaaaa)", "CAL-E002"),
        ("ASSEMBLE c FROM a: (RECALL | COUNT)", "CAL-E021"),
        ("ASSEMBLE c FROM a: (RECALL | FIRST)", "CAL-E021"),
        ("ASSEMBLE c FROM a: (RECALL), a: (RECALL)", "CAL-E002"),
        ("ASSEMBLE c FROM (RECALL), source_1: (RECALL)", "CAL-E002"),
        ("ASSEMBLE history FROM (RECALL)", "CAL-E002"),
        ("ASSEMBLE graph FROM (RECALL)", "CAL-E002"),
        ("ASSEMBLE 5 FROM (RECALL)", "CAL-E002"),
        ('ASSEMBLE FOR "x" c FROM (RECALL)', "CAL-E002"),
        ("ASSEMBLE FOR $x FROM (RECALL)", "CAL-E002"),
        ("ASSEMBLE c FROM (RECALL) BUDGET 16000 tokens", None),
        ("ASSEMBLE c FROM (RECALL) BUDGET 16001 TOKENS", "CAL-E030"),
        ("ASSEMBLE c FROM (RECALL) BUDGET 200 grains", None),
        ("ASSEMBLE c FROM (RECALL) BUDGET 201 grains", "CAL-E030"),
        ("ASSEMBLE c FROM (RECALL) BUDGET 0 tokens", "CAL-E006"),
        ("ASSEMBLE c FROM (RECALL) BUDGET 5 words", "CAL-E002"),
        ("ASSEMBLE c FROM (RECALL) BUDGET 5 tokens BUDGET 5 tokens", "CAL-E002"),
        ("ASSEMBLE c FROM a: (RECALL), (RECALL) PRIORITY source_2 > a", None),
        ("ASSEMBLE c FROM a: (RECALL) PRIORITY A", "CAL-E002"),
        ("ASSEMBLE c FROM a: (RECALL) PRIORITY a > a", "CAL-E002"),
        ("ASSEMBLE c FROM a: (RECALL) PRIORITY", "CAL-E002"),
        ("ASSEMBLE c FROM (RECALL) FORMAT data", None),
        ("ASSEMBLE c FROM (RECALL) FORMAT html", "CAL-E002"),
        ("ASSEMBLE c FROM (RECALL) FORMAT TEMPLATE recall", "CAL-E002"),
        ("ASSEMBLE c FROM (RECALL) FORMAT TEMPLATE { }", "CAL-E002"),
        ("ASSEMBLE c FROM (RECALL) STREAM", None),
        ("ASSEMBLE c FROM (RECALL) STREAM { }", "CAL-E002"),
        ("ASSEMBLE c FROM (RECALL) STREAM { progress, budget, chunks, all, chunk_size = 20 }", None),
        ("ASSEMBLE c FROM (RECALL) STREAM { chunk_size = 1000 }", None),
        ("ASSEMBLE c FROM (RECALL) STREAM { chunk_size = 19 }", "CAL-E078"),
        ("ASSEMBLE c FROM (RECALL) STREAM { chunk_size = 1001 }", "CAL-E078"),
        ("ASSEMBLE c FROM (RECALL) STREAM { chunk_size = 0 }", "CAL-E006"),
        ("ASSEMBLE c FROM (RECALL) STREAM { everything }", "CAL-E077"),
        ("ASSEMBLE c FROM (RECALL) STREAM { progress chunks }", "CAL-E002"),
        ("ASSEMBLE c FROM (RECALL) WITH dedup(session_id)", None),
        ("ASSEMBLE c FROM (RECALL) LIMIT 5", "CAL-E002"),
    ],
)
def test_assemble_has_its_verdict(text: str, code: str | None) -> None:
    assert code_of(text) == code


@pytest.mark.requirement("CAL-17.3-statement-limits")
@pytest.mark.parametrize(
    ("shape", "most", "code"),
    [
        (lambda n: "ASSEMBLE c FROM " + ", ".join(["(RECALL)"] * n), 8, "CAL-E002"),
        (lambda n: "ASSEMBLE " + "c" * n + " FROM (RECALL)", 64, "CAL-E002"),
        (lambda n: f'ASSEMBLE FOR "{"é" * n}" FROM (RECALL)', 256, "CAL-E002"),
        (lambda n: "BATCH {" + ", ".join(f"l{i}: RECALL" for i in range(n)) + "}", 10, "CAL-E002"),
        (lambda n: "COALESCE(" + ", ".join(["RECALL"] * n) + ")", 5, "CAL-E002"),
        (lambda n: " UNION ".join(["(RECALL)"] * n), 5, "CAL-E013"),
        (lambda n: "(" + " UNION ".join(["(RECALL)"] * (n - 1)) + ") EXCEPT (RECALL)", 5, "CAL-E013"),
        (lambda n: "".join(f"LET $v{i} = RECALL; " for i in range(n)) + "RECALL", 5, "CAL-E002"),
        (lambda n: "RECALL WHERE subject IN (" + ", ".join(f"$p{i}" for i in range(n)) + ")", 20, "CAL-E002"),
        (lambda n: f'REVERT {H} REASON "{"é" * n}"', 500, "CAL-E016"),
        (lambda n: "DEFINE TEMPLATE " + "t" * n + " ELEMENT { x }", 64, "CAL-E002"),
        (lambda n: "DEFINE TEMPLATE t ELEMENT {" + "x" * (n - 10) + "}", 4096, "CAL-E092"),
        (lambda n: "RECALL WHERE hc:x = " + "[" * n + "]" * n, 8, "CAL-E002"),
    ],
    ids=["sources", "name", "intent", "batch", "coalesce", "operands", "nested", "lets", "parameters", "reason",
         "template name", "template bytes", "arrays"],
)  # fmt: skip
def test_each_limit_holds_at_its_last_value(shape, most: int, code: str) -> None:  # type: ignore[no-untyped-def]
    assert code_of(shape(most)) is None
    assert code_of(shape(most + 1)) == code


def test_a_source_may_be_a_let_with_or_without_parentheses() -> None:
    one, other = (parse(f"LET $l = RECALL; ASSEMBLE FROM a: {ref}") for ref in ("$l", "($l)"))
    assert one == other
    assert isinstance(one.statement, Assemble)
    assert isinstance(one.statement.sources[0], AssembleSource)


def test_bare_stream_means_everything() -> None:
    for spec in ("STREAM", "STREAM { all }", "STREAM { all, all }"):
        statement = parse(f"ASSEMBLE FROM (RECALL) {spec}").statement
        assert isinstance(statement, Assemble)
        assert statement.stream == StreamOptions(options=("all",))
    statement = parse("ASSEMBLE FROM (RECALL) STREAM { chunk_size = 50 }").statement
    assert isinstance(statement, Assemble)
    assert statement.stream == StreamOptions(options=("all",), chunk_size=50)


@pytest.mark.requirement("CAL-8.11-sets")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("(RECALL) UNION (RECALL)", None),
        ("(CAL/1 RECALL) EXCEPT (COALESCE(RECALL, RECALL))", None),
        ("((RECALL) UNION (RECALL)) INTERSECT ((RECALL) EXCEPT (RECALL))", None),
        ("(RECALL)", "CAL-E002"),
        ("((RECALL)) UNION (RECALL)", "CAL-E002"),
        ("(RECALL) UNION RECALL", "CAL-E002"),
        ("(RECALL) UNION", "CAL-E002"),
        ("(RECALL) UNION (RECALL) LIMIT 5", "CAL-E002"),
        ("(RECALL | COUNT) UNION (RECALL)", "CAL-E021"),
        ("(RECALL) UNION (COALESCE(RECALL, RECALL | HASHES))", "CAL-E021"),
        ("(ASSEMBLE FROM (RECALL)) UNION (RECALL)", "CAL-E002"),
        ("(LET $x = RECALL; RECALL) UNION (RECALL)", "CAL-E002"),
    ],
)
def test_set_operations_have_their_verdict(text: str, code: str | None) -> None:
    assert code_of(text) == code


def test_a_chain_leans_to_the_left() -> None:
    chain = parse("(RECALL beliefs) UNION (RECALL goals) EXCEPT (RECALL events)")
    assert chain == parse("((RECALL beliefs) UNION (RECALL goals)) EXCEPT (RECALL events)")
    assert chain != parse("(RECALL beliefs) UNION ((RECALL goals) EXCEPT (RECALL events))")
    assert isinstance(chain.statement, SetOp)
    assert chain.statement.operator == "except"


@pytest.mark.requirement("CAL-8.3-small-reads")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("EXISTS $h", None),
        ("EXISTS", "CAL-E002"),
        (f"EXISTS {H} {H}", "CAL-E002"),
        (f"HISTORY {H} DIFF $other", None),
        (f"HISTORY {H} DIFF", "CAL-E002"),
        ('HISTORY IN "ns" WHERE subject = $s AND relation = "r" AS OF "yesterday"', None),
        ('HISTORY WHERE relation = "r" AND subject = "s"', "CAL-E002"),
        ('HISTORY WHERE subject = "s"', "CAL-E002"),
        ('HISTORY WHERE subject != "s" AND relation = "r"', "CAL-E002"),
        ('HISTORY WHERE subject = 5 AND relation = "r"', "CAL-E020"),
        ('HISTORY WHERE subject = "s" AND relation = "r" AS OF "soon"', "CAL-E020"),
        ('HISTORY WHERE subject = "s" AND relation = "r" AS json', "CAL-E002"),
        (f'HISTORY {H} AS OF "2025-06-15"', "CAL-E002"),
        (f'HISTORY IN "ns" {H}', "CAL-E002"),
        ("DESCRIBE Grain_Types", None),
        ("DESCRIBE fields belief", None),
        ("DESCRIBE fields beliefs", "CAL-E003"),
        ("DESCRIBE server belief", "CAL-E002"),
        ("DESCRIBE belief", "CAL-E002"),
        ("DESCRIBE", "CAL-E002"),
        ("EXPLAIN (RECALL) UNION (RECALL)", None),
        ("EXPLAIN DEFINE TEMPLATE t ELEMENT { x }", None),
        ("EXPLAIN EXPLAIN RECALL", "CAL-E002"),
        ("EXPLAIN CAL/1 RECALL", "CAL-E002"),
        ("EXPLAIN", "CAL-E002"),
    ],
)
def test_small_reads_have_their_verdict(text: str, code: str | None) -> None:
    assert code_of(text) == code


@pytest.mark.requirement("CAL-8.7-batch")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            f"BATCH {{ a: RECALL, b: EXISTS {H}, c: HISTORY {H}, d: DESCRIBE fields, e: COALESCE(RECALL, RECALL) }}",
            None,
        ),
        ("BATCH { recall: RECALL, Recall: RECALL }", None),
        ("BATCH { a:RECALL goals,b:RECALL beliefs WITH superseded,c:RECALL SELECT subject,d:RECALL}", None),
        ("BATCH { a: RECALL, a: RECALL }", "CAL-E002"),
        ("BATCH { }", "CAL-E002"),
        ("BATCH { a: RECALL, }", "CAL-E002"),
        ("BATCH { a: RECALL WITH superseded, }", "CAL-E002"),
        ("BATCH { RECALL }", "CAL-E002"),
        ("BATCH { a: RECALL", "CAL-E002"),
        ("BATCH { a: ASSEMBLE FROM (RECALL) }", "CAL-E002"),
        ("BATCH { a: EXPLAIN RECALL }", "CAL-E002"),
        ("BATCH { a: (RECALL) UNION (RECALL) }", "CAL-E002"),
        ('BATCH { a: REVERT sha256:aaaaaaaa REASON "r" }', "CAL-E002"),
        ("BATCH { a: LET $x = RECALL; RECALL }", "CAL-E002"),
        ("COALESCE(RECALL, RECALL WITH superseded, RECALL | SELECT subject, object, RECALL)", None),
        ("COALESCE(RECALL)", "CAL-E002"),
        ("COALESCE(RECALL, EXISTS sha256:aaaaaaaa)", "CAL-E002"),
        ("COALESCE(RECALL | COUNT, RECALL)", None),
        ("COALESCE RECALL, RECALL", "CAL-E002"),
    ],
)
def test_batch_and_coalesce_have_their_verdict(text: str, code: str | None) -> None:
    assert code_of(text) == code


@pytest.mark.requirement("CAL-8.12-let")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("LET $x = RECALL beliefs | SUBJECTS; RECALL WHERE subject IN ($x)", None),
        ('LET $x = RECALL beliefs | SUBJECTS; RECALL WHERE subject IN ("a", $x)', None),
        ("LET $x = RECALL beliefs; RECALL WHERE subject IN ($x)", "CAL-E021"),
        ("LET $x = RECALL beliefs | SUBJECTS; ASSEMBLE FROM $x", "CAL-E021"),
        ("LET $x = RECALL beliefs | SUBJECTS; RECALL WHERE subject = $x", "CAL-E020"),
        ("LET $x = RECALL beliefs | SUBJECTS; RECALL ABOUT $x", "CAL-E020"),
        ("LET $x = RECALL; LET $x = RECALL; RECALL", "CAL-E009"),
        ("LET $current_user_id = RECALL; RECALL", "CAL-E009"),
        ("LET $x = RECALL", "CAL-E002"),
        ("LET $x = RECALL;", "CAL-E002"),
        ("LET x = RECALL; RECALL", "CAL-E002"),
        ("LET $x = EXISTS sha256:aaaaaaaa; RECALL", "CAL-E002"),
        ("RECALL; LET $x = RECALL;", "CAL-E002"),
    ],
)
def test_let_has_its_verdict(text: str, code: str | None) -> None:
    assert code_of(text) == code


def chain(names: str, statement: str) -> str:
    bindings, before = "", ""
    for name in names:
        condition = f" WHERE subject IN (${before})" if before else ""
        bindings += f"LET ${name} = RECALL beliefs{condition} | SUBJECTS; "
        before = name
    return bindings + statement.replace("LAST", f"${before}")


@pytest.mark.requirement("CAL-8.12-let-chains")
def test_only_assemble_lets_bindings_build_on_one_another_three_deep() -> None:
    use = "ASSEMBLE FROM (RECALL beliefs WHERE subject IN (LAST))"
    assert code_of(chain("abc", use)) is None
    assert code_of(chain("abc", f"EXPLAIN {use}")) is None
    assert code_of(chain("abcd", use)) == "CAL-E007"
    assert code_of(chain("ab", "RECALL beliefs WHERE subject IN (LAST)")) == "CAL-E008"
    assert code_of(chain("ab", "BATCH { a: RECALL }")) == "CAL-E008"
    forward = "LET $a = RECALL beliefs WHERE subject IN ($b) | SUBJECTS; LET $b = RECALL beliefs | SUBJECTS; RECALL"
    assert place_of(forward) == ("CAL-E008", 1, forward.index("$b") + 1)
    itself = "LET $a = RECALL beliefs WHERE subject IN ($a) | SUBJECTS; RECALL"
    assert code_of(itself) == "CAL-E008"


@pytest.mark.requirement("CAL-8.8-evolve")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f'ADD belief {TRIPLE} REASON "x"', None),
        (
            f'ADD goal {TRIPLE} SET goal_state = "completed" SET deadline = 1 SET depends_on = [{H}] REASON "x"',
            None,
        ),
        (f'ADD goal {TRIPLE} SET depends_on = "h" REASON "x"', None),
        (f'ADD goal {TRIPLE} SET depends_on = [5] REASON "x"', "CAL-E020"),
        (f'ADD goal {TRIPLE} SET deadline = "last week" REASON "x"', "CAL-E020"),
        (f'ADD belief {TRIPLE} SET goal_state = "active" REASON "x"', "CAL-E017"),
        (f'ADD belief {TRIPLE} SET user_id = "u" REASON "x"', "CAL-E017"),
        (f'ADD belief {TRIPLE} SET content = "u" REASON "x"', "CAL-E017"),
        (f'ADD belief {TRIPLE} SET tags = ["a", 5] REASON "x"', "CAL-E020"),
        (f'ADD belief {TRIPLE} SET importance = 2 REASON "x"', "CAL-E020"),
        (f'ADD belief {TRIPLE} SET object = "p" REASON "x"', "CAL-E002"),
        ('ADD belief SET subject = 5 REASON "x"', "CAL-E020"),
        ('ADD belief SET subject = "s" SET relation = "" SET object = "o" REASON "x"', "CAL-E050"),
        ('ADD belief REASON "x"', "CAL-E050"),
        ("ADD belief", "CAL-E018"),
        (f"ADD belief {TRIPLE}", "CAL-E018"),
        (f'ADD belief {TRIPLE} REASON "  "', "CAL-E018"),
        (f"ADD belief {TRIPLE} REASON", "CAL-E002"),
        (f"ADD belief {TRIPLE} REASON $r", "CAL-E002"),
        (f'ADD belief {TRIPLE} LIMIT 5 REASON "x"', "CAL-E002"),
        (f'ADD beliefs {TRIPLE} REASON "x"', "CAL-E003"),
        (f'ADD event {TRIPLE} REASON "x"', "CAL-E051"),
        ("ADD state", "CAL-E051"),
        ("ADD", "CAL-E002"),
        ("ADD 5", "CAL-E002"),
        (f'SUPERSEDE {H} SET object = "o" SET confidence = 1 SET importance = 0 SET tags = [] REASON "x"', None),
        ('SUPERSEDE $h SET object = $o REASON "x"', None),
        (f'SUPERSEDE {H} SET subject = "o" REASON "x"', "CAL-E017"),
        (f'SUPERSEDE {H} REASON "x"', "CAL-E019"),
        (f"SUPERSEDE {H}", "CAL-E019"),
        (f'SUPERSEDE {H} SET object = "o"', "CAL-E018"),
        (f'SUPERSEDE {H} WITH {{ object: "x" }} REASON "y"', "CAL-E002"),
        ('SUPERSEDE WHERE subject = "x" SET object = "o" REASON "x"', "CAL-E002"),
        (f'SUPERSEDE "{H}" SET object = "o" REASON "x"', "CAL-E015"),
        (f'REVERT {H} REASON "x"', None),
        (f"REVERT {H}", "CAL-E018"),
        (f'REVERT {H} SET object = "o" REASON "x"', "CAL-E002"),
    ],
)
def test_evolving_has_its_verdict(text: str, code: str | None) -> None:
    assert code_of(text) == code


def test_set_is_kept_in_canonical_order() -> None:
    text = 'ADD belief SET tags = [] SET object = "o" SET relation = "r" SET subject = "s" REASON "x"'
    written = 'CAL/1 ADD belief SET subject = "s" SET relation = "r" SET object = "o" SET tags = [] REASON "x"'
    assert canonical(parse(text)) == written
