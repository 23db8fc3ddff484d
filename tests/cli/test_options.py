"""Values of options: numbers out of range, and messages in the names that a person typed."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Command

from memoranda.cli.help import pages

LIMITS = {
    "recall": (("recall", "tea", "--limit"), 50),
    "recall for a prompt": (("recall", "tea", "--for-prompt", "--limit"), 50),
    "list": (("list", "--limit"), 1000),
    "audit": (("audit", "--limit"), 1000),
    "candidates": (("candidates", "--limit"), 500),
    "openwop list": (("openwop", "list", "garden", "--limit"), 1000),
    "oams recall": (("oams", "recall", "tea", "--limit"), 100),
    "oams recall -k": (("oams", "recall", "tea", "-k"), 100),
    "oams list": (("oams", "list", "--limit"), 500),
    "oms find": (("oms", "find", "--limit"), 500),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_that_would_not_be_kept_is_refused_with_its_range(run: Command, name: str) -> None:
    tokens, most = LIMITS[name]
    assert run("remember", "tea").code == 0
    assert run("openwop", "put", "garden", "tea").code == 0
    for wrong in ("0", "-1", str(most + 1), "100000"):
        for given in ((wrong,), (wrong, "--json")):
            refused = run(*tokens, *given)
            assert refused.code == 2
            message = f"{tokens[-1]} must be from 1 to {most}, not {wrong}."
            assert refused.err.startswith(f"memoranda: {message} Try: memoranda ")
            if "--json" in given:
                assert refused.json["error"]["code"] == "usage"
                assert refused.json["error"]["message"].startswith(message)
            else:
                assert refused.out == ""
    for right in ("1", str(most)):
        found = run(*tokens, right)
        assert (found.code, "tea" in found.out or name in ("audit", "candidates")) == (0, True)


def test_every_number_has_a_range() -> None:
    """None is a number of any size: what is too large or negative is refused by its name."""
    numbers = [(page.path, slot) for page in pages() for slot in page.options if slot.kind in (int, float)]
    assert len(numbers) > 15
    assert [(path, slot.label) for path, slot in numbers if slot.minimum is None] == []


MISTAKES = {
    "--valid-at": ("recall", "tea", "--valid-at", "soon"),
    "--known-at": ("recall", "tea", "--known-at", "soon"),
    "QUERY": ("recall", ""),
    "--project": ("recall", "tea", "--project", "\x01"),
    "--tag": ("recall", "tea", "--tag", ""),
    "TEXT": ("revise", "ID", ""),
    "--valid-to": ("revise", "ID", "coffee", "--valid-to", "soon"),
    "--confidence": ("revise", "ID", "coffee", "--confidence", "7"),
    "--salience": ("remember", "x", "--salience", "-3"),
    "--valid-from": ("remember", "x", "--valid-from", "soon"),
    "--retention": ("remember", "x", "--retention", "P"),
    "--user": ("remember", "x", "--user", ""),
    "--redact": ("remember", "x", "--redact", "nope nope"),
    "--source": ("remember", "x", "--source", ""),
    "--tag or --about": ("remember", "x", "--about", ""),
    "TEXT ": ("remember", ""),
    "--since": ("audit", "--since", "soon"),
    "--since ": ("oams", "recall", "tea", "--since", "soon"),
    "--until": ("audit", "--until", "soon"),
    "REF": ("openwop", "put", "../x", "tea"),
    "--expires": ("openwop", "put", "garden", "tea", "--expires", "soon"),
    "--timezone": ("openwop", "distill", "garden", "--every", "0 3 * * *", "--timezone", "Nowhere/X"),
    "--text": ("oms", "find", "--text", ""),
    "--type": ("oms", "find", "--type", "nope"),
    "--cursor": ("oams", "list", "--cursor", "x"),
    "KEY": ("oams", "store", "", "tea"),
    "--max-memories": ("rules", "--max-memories", "-4"),
    "--page": ("list", "--page", "0"),
    "--budget": ("recall", "tea", "--for-prompt", "--budget", "0"),
    "--budget ": ("openwop", "distill", "garden", "--budget", "0"),
    "--port": ("serve", "--port", "99999"),
    "--workers": ("serve", "--workers", "65"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_message_names_what_was_typed(run: Command, name: str) -> None:
    made = run("remember", "tea", "--json").json["id"]
    tokens = tuple(made if token == "ID" else token for token in MISTAKES[name])
    refused = run(*tokens)
    assert refused.code in (1, 2)
    assert refused.err.startswith(f"memoranda: {name.strip()}")
    rest = refused.err.removeprefix(f"memoranda: {name.strip()}")
    assert rest.startswith((":", " must be ", " is required"))
    # A date is enough for every option that takes a time.
    assert ("soon" in tokens) <= ("a date such as 2026-12-01, or RFC 3339" in rest)
    error = run(*tokens, "--json").json["error"]["message"]
    assert refused.err == f"memoranda: {error}\n"


def test_fields_of_a_file_keep_their_names(run: Command) -> None:
    record = b'{"ump_version": "0.1", "kind": "semantic", "body": {}}'
    refused = run("import", "-", "--format", "json", piped=record)
    assert "body.text" in refused.err + refused.out
    assert "TEXT" not in refused.err + refused.out
