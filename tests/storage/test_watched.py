"""A file that grows while many look at it is not taken for one that was cut."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from memoranda.storage.sqlite.file import Watched


def test_a_file_that_grows_under_many_readers_is_not_taken_for_one_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    watched, done, before = Watched(path), threading.Event(), sys.getswitchinterval()
    failures: list[Exception] = []

    def look() -> None:
        try:
            while not done.is_set():
                watched.check()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    readers = [threading.Thread(target=look) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for reader in readers:
            reader.start()
        with path.open("ab", buffering=0) as file:
            for _ in range(5_000):
                file.write(b"x")
    finally:
        sys.setswitchinterval(before)
        done.set()
        for reader in readers:
            reader.join()
    assert failures == []
