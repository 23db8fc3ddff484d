"""The error tree: codes are stable, and drawn as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memoranda import errors
from memoranda.errors import MemorandaError
from memoranda.keys import operator_key

UMP_CODES = {
    "unauthorized",
    "forbidden_scope",
    "not_found",
    "invalid_record",
    "consent_violation",
    "signature_invalid",
    "unsupported",
    "rate_limited",
}


def tree(error: type[MemorandaError]) -> dict[str, str]:
    found = {error.__name__: error.code}
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            found |= tree(child)
    return found


@pytest.mark.requirement("UMP-3-error-envelope")
def test_the_eight_codes_of_ump_each_have_an_error() -> None:
    assert set(tree(MemorandaError).values()) >= UMP_CODES


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn = dict(re.findall(r"[├└]── (\w+)\s+(\w+)", errors.__doc__ or ""))
    assert {"MemorandaError": "internal", **drawn} == tree(MemorandaError)


def test_an_error_has_a_sentence_even_when_none_is_given() -> None:
    assert errors.NotFound().message == "No such memory."
    assert str(errors.NotFound("no memory x")) == "no memory x"


def test_an_error_names_its_file_in_its_text_and_not_in_its_message(tmp_path: Path) -> None:
    (tmp_path / "operator.key").write_text("{}")
    (tmp_path / "operator.key").chmod(0o600)
    with pytest.raises(errors.StoreUnavailable, match="operator key file is damaged") as raised:
        operator_key(tmp_path)
    assert str(raised.value) == f"{tmp_path / 'operator.key'}: {raised.value.message}"
    assert str(tmp_path) not in raised.value.message
