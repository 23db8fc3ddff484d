"""Backups of a store on PostgreSQL: one moment of it while others write, restored into either kind."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memoranda.backup import back_up, restore
from memoranda.errors import InvalidInput, StoreUnavailable
from memoranda.opening import open_service
from memoranda.service.service import Service
from memoranda.settings import Settings, load_settings
from tests.commands import command
from tests.embedders import WORDS_ALONE
from tests.postgres import server


@pytest.fixture
def address() -> Iterator[str]:
    with server().database() as found:
        yield found


@pytest.fixture
def other_address() -> Iterator[str]:
    with server().database() as found:
        yield found


def _settings(home: Path, store: str | None = None) -> Settings:
    return load_settings(WORDS_ALONE, home=home, store=store)


def _remember(service: Service, text: str, **scope: str) -> None:
    me = service.gate.local()
    draft = {"kind": "semantic", "body": {"text": text}, "scope": {"owner": me.default_tenant, **scope}}
    provenance = {"actor": me.default_tenant, "actor_kind": "user", "method": "test"}
    service.remember(me, {**draft, "provenance": provenance})


def _texts(settings: Settings) -> set[str]:
    with closing(open_service(settings)) as service:
        assert service.verify_store().ok
        return {record["body"]["text"] for record in service.export(service.gate.local())}


def test_a_backup_of_a_store_in_use_is_restored_into_either_kind(
    address: str, other_address: str, tmp_path: Path
) -> None:
    home, target, stop = tmp_path / "home", tmp_path / "store.backup", threading.Event()
    with closing(open_service(_settings(home, address))) as service:
        before = {f"note {number} of the harbour" for number in range(20)}
        for number, text in enumerate(before):
            _remember(service, text, **({"user": "ada"} if number % 2 else {}))

        def write() -> None:
            number = 0
            while not stop.is_set():
                _remember(service, f"meanwhile {number}", user=f"user {number % 3}")
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            shared = ("--data", str(home), "--store", address, "--json")
            done = command(*shared, "backup", str(target))
        finally:
            stop.set()
            writer.join()
    assert done.code == 0
    assert target.stat().st_mode & 0o777 == 0o600
    # Nothing of the work is left lying about.
    assert not [path for path in home.iterdir() if path.name.startswith(".")]
    file, machine = tmp_path / "file", tmp_path / "machine"
    assert command("--data", str(file), "--json", "restore", str(target)).code == 0
    restored = command("--data", str(machine), "--store", other_address, "--json", "restore", str(target))
    assert restored.code == 0
    both = [_texts(_settings(file)), _texts(_settings(machine, other_address))]
    assert before <= both[0]
    assert both[0] == both[1]
    assert {path.stat().st_mode & 0o777 for path in machine.iterdir() if path.is_file()} == {0o600}
    # And what SQLite wrote comes to PostgreSQL, where there is no store yet.
    back_up(_settings(file), target := tmp_path / "file.backup")
    with pytest.raises(StoreUnavailable, match="already"):
        restore(_settings(tmp_path / "new", address), target)
    assert not (tmp_path / "new" / "operator.key").exists()
    with pytest.raises(InvalidInput, match="--force"):
        restore(_settings(machine, address), target)


def test_a_backup_has_the_master_key_that_opens_it_though_another_machine_has_made_it(
    address: str, other_address: str, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    with closing(open_service(_settings(here, address))) as service:
        _remember(service, "the crane lifts nine tons", user="ada")
        shutil.copytree(here, there)
        service.context.engine.rotate_master_key()
    back_up(_settings(there, address), tmp_path / "store.backup")
    restore(_settings(tmp_path / "new", other_address), tmp_path / "store.backup")
    assert _texts(_settings(tmp_path / "new", other_address)) == {"the crane lifts nine tons"}
