"""Where settings come from, and which of them wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda.app import Memoranda
from memoranda.cli import main
from memoranda.errors import InvalidInput
from memoranda.settings import SETTINGS_FILE, load_settings


def said(home: Path, text: str) -> Path:
    (home / SETTINGS_FILE).write_text(text, encoding="utf-8")
    return home


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    home = said(tmp_path, 'port = 1\nhost = "::1"\nrate_limit = 7\nallowed_hosts = ["a", "b"]\ncal_evolve = "off"\n')
    found = load_settings({"MEMORANDA_PORT": "2", "MEMORANDA_HOST": "127.0.0.2"}, home=home, port=3, owner=None)
    assert (found.port, found.host, found.rate_limit) == (3, "127.0.0.2", 7)
    assert (found.allowed_hosts, found.cal_evolve, found.encryption) == (("a", "b"), "off", "auto")
    assert load_settings({"MEMORANDA_HOME": str(home)}).port == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("prot = 1", "there is no setting 'prot'"),
        ('home = "/elsewhere"', "there is no setting 'home'"),
        ("port = true", "port: must be a whole number"),
        ('port = "8420"', "port: must be a whole number"),
        ('allowed_hosts = "a"', "allowed_hosts: must be a list of texts"),
        ("allowed_hosts = [1]", "allowed_hosts: must be a list of texts"),
        ("host = 5", "host: must be a text"),
        ('encryption = "some"', "must be one of auto, users, all, off"),
        ("port = 70000", "from 0 to 65535"),
        ("max_bytes = -1", "0 for no limit"),
        ('compliance = ["gpdr"]', "there is no preset 'gpdr'"),
        ("port", "cannot be read"),
        ("[cal]\nevolve = 1", "must be a text"),
    ],
)
def test_a_file_that_says_something_wrong_is_refused_with_the_reason(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        load_settings({}, home=said(tmp_path, text))
    assert why in refused.value.message


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / SETTINGS_FILE).write_bytes(b'host = "\xff"')
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_settings({}, home=tmp_path)


def test_library_and_commands_read_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MEMORANDA_OWNER", raising=False)
    home = said(tmp_path, 'owner = "did:example:ada"\ncal = "off"\n')
    with Memoranda.open(home) as memoranda:
        assert memoranda.access.default_tenant == "did:example:ada"
    assert main(["--data", str(home), "cal", "RECALL"]) == 1
    assert "CAL is switched off" in capsys.readouterr().err
