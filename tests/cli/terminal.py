"""A program on a terminal of its own: a pseudo terminal, as a person has one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from types import TracebackType
from typing import Self

from tests.forking import Forked
from tests.waiting import HANG_SECONDS

ROWS, COLUMNS = 50, 200
# What the line editor writes when it is ready for the next input, and when it has taken one: bracketed paste.
READY, TAKEN = "\x1b[?2004h", "\x1b[?2004l"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Runs one command; what is typed goes in, what is shown is collected."""

    def __init__(self, command: list[str], environment: dict[str, str], columns: int = COLUMNS) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        # This terminal cannot tell where its cursor is.
        shown = {**environment, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        self._process = Forked(command, stdin=slave, stdout=slave, stderr=slave, env=shown, start_new_session=True)
        os.close(slave)
        self._raw = ""
        self._place = 0

    @property
    def seen(self) -> str:
        """All that was shown, without what moves the cursor or colours."""
        return _ESCAPES.sub("", self._raw).replace("\r", "")

    @property
    def raw(self) -> str:
        """All that was shown, as it came."""
        return self._raw

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, text: str) -> None:
        """Wait until this is shown, after what was waited for before."""
        deadline = time.monotonic() + HANG_SECONDS
        while (found := self._raw.find(text, self._place)) < 0:
            assert time.monotonic() < deadline, f"no {text!r} in {self._raw[self._place :]!r}"
            assert self._read(), f"it ended without {text!r}: {self._raw[self._place :]!r}"
        self._place = found + len(text)

    def ready(self) -> None:
        """Wait for the prompt."""
        self.until(READY)

    def enter(self, text: str, shown: str = "") -> None:
        """Type a line at the prompt, wait for what it shows, and for the prompt after it."""
        self.press(f"{text}\r")
        self.until(TAKEN)
        self.until(shown)
        self.ready()

    def wait(self) -> int:
        """Wait for the end; its exit code."""
        while self._read():
            pass
        return self._process.wait(HANG_SECONDS)

    def _read(self) -> bool:
        """Take in what is there; False when the program is gone."""
        if not select.select([self._master], [], [], HANG_SECONDS)[0]:
            return True
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            # Linux says so when nobody has the other end open any more.
            return False
        self._raw += data.decode("utf-8", "replace")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)
