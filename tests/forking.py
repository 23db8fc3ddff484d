"""Processes without the time that Python takes to read a program: that is most of what a short one takes.

One process for each that runs tests has read all of Memoranda. For every command that is asked for it forks, and the
child becomes that command, with files, folder and environment of whoever asked: a process like any other. What is in
memory already when it begins is the one difference, and so what is about starting (tests/cli/test_process.py,
test_start.py) does without this.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from io import BufferedReader, BufferedWriter
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

MAX_BYTES: Final = 262_144
# A program that asks for one, and nothing of ours: what a shell or a client starts.
CALLER: Final = """\
#!{python} -IS
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({socket!r})
    asked = json.dumps([{command!r} + sys.argv[1:], os.getcwd(), dict(os.environ), False]).encode()
    socket.send_fds(server, [asked], [0, 1, 2])
    started = int(server.recv(16))
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: os.kill(started, number))
    for each in range(3):
        os.close(each)
    code = int(server.recv(16))
    os._exit(code if code >= 0 else 128 - code)
"""
# What the commands load when they run, beside the modules of Memoranda.
OTHERS: Final = (
    *("anyio._backends._asyncio", "anyio._core._subprocesses", "mcp.client.stdio", "mcp.client.streamable_http"),
    *("mcp.server.stdio", "numpy.ma", "ruamel.yaml", "uvicorn.lifespan.on", "uvicorn.protocols.http.h11_impl"),
)


class Forked:
    """A process that was asked for: as much of `subprocess.Popen` as tests use."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        env: dict[str, str] | None = None,
        cwd: str | Path | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        start_new_session: bool = False,
    ) -> None:
        """The command begins with `sys.executable`, and goes on with `-m module`, `-c program` or a file."""
        python, *words = map(str, command)
        assert python == sys.executable, command
        self.returncode: int | None = None
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server.connect(_address())
        theirs, ours, made = _files(stdin, stdout, stderr)
        asked = [words, str(cwd or Path.cwd()), dict(os.environ if env is None else env), start_new_session]
        try:
            socket.send_fds(self._server, [json.dumps(asked).encode()], theirs)
            self.pid = int(self._server.recv(16))
        finally:
            for each in made:
                os.close(each)
        self.stdin: BufferedWriter | None = None if ours[0] is None else os.fdopen(ours[0], "wb")
        self.stdout: BufferedReader | None = None if ours[1] is None else os.fdopen(ours[1], "rb")
        self.stderr: BufferedReader | None = None if ours[2] is None else os.fdopen(ours[2], "rb")

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; what it ended with, or less than nothing: the signal that ended it."""
        if self.returncode is None:
            if not select.select([self._server], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("", timeout or 0.0)
            self.returncode = int(self._server.recv(16) or b"70")
            self._server.close()
        return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def communicate(self) -> tuple[bytes, bytes]:
        """Say no more, read both to their end, and wait."""
        if self.stdin is not None:
            with suppress(BrokenPipeError):
                self.stdin.close()
        read: dict[str, bytes] = {}

        def take(name: str, stream: IO[bytes] | None) -> None:
            read[name] = b"" if stream is None else stream.read()

        beside = threading.Thread(target=take, args=("stderr", self.stderr))
        beside.start()
        take("stdout", self.stdout)
        beside.join()
        self.wait()
        self._close()
        return read["stdout"], read["stderr"]

    def send_signal(self, number: int) -> None:
        # It is there until its end was told, and for as long nobody else has its number.
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        for each in (self.stdin, self.stdout, self.stderr):
            if each is not None:
                with suppress(BrokenPipeError):
                    each.close()


def run(command: Sequence[str | Path], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, with nothing to read."""
    pipe = subprocess.PIPE
    with Forked(command, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:
        out, err = process.communicate()
        return subprocess.CompletedProcess(command, process.wait(), out, err)


def put_memoranda(folder: Path) -> None:
    """Put a program into a folder that is called as `memoranda` is."""
    _put_caller(folder / "memoranda", ["-m", "memoranda"])


@cache
def python() -> str:
    """A program that is called as Python is: for those who start one by its path."""
    return _put_caller(Path(_address()).with_name("python"), [])


def _put_caller(path: Path, command: list[str]) -> str:
    path.write_text(CALLER.format(python=sys.executable, socket=_address(), command=command), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def _files(*wanted: int | None) -> tuple[list[int], list[int | None], list[int]]:
    """Standard input, output and error: of the process, of ours where there is a pipe, and what to close here."""
    theirs: list[int] = []
    ours: list[int | None] = []
    made: list[int] = []
    for number, each in enumerate(wanted):
        other = None
        if each == subprocess.PIPE:
            reads, writes = os.pipe()
            given, other = (writes, reads) if number else (reads, writes)
            made.append(given)
        elif each == subprocess.DEVNULL:
            given = os.open(os.devnull, os.O_RDWR)
            made.append(given)
        else:
            given = number if each is None else each
        theirs.append(given)
        ours.append(other)
    return theirs, ours, made


@cache
def _address() -> str:
    """Where processes are asked for; the one that is asked ends with this one."""
    folder = tempfile.mkdtemp(prefix="forking-")
    path = f"{folder}/socket"
    pipe = subprocess.PIPE
    server = subprocess.Popen([sys.executable, __file__, path], stdin=pipe, stdout=pipe)
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    server.stdout.close()

    def end() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return path


# --- the process that is asked --------------------------------------------------------------------------------


def serve(path: str) -> Any:
    """Fork for each that asks, until standard input ends; in the child, return what was asked."""
    children: dict[int, socket.socket] = {}
    ended, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            watched: list[Any] = [listener, ended, 0]
            there = select.select(watched, [], [])[0]
            if ended in there:
                os.read(ended, 4096)
                _tell_of_ended(children)
            if listener in there:
                connection, _ = listener.accept()
                asked, files, _, _ = socket.recv_fds(connection, MAX_BYTES, 3)
                if (child := os.fork()) == 0:
                    for other in (connection, *children.values()):
                        other.close()
                    os.close(ended)
                    return json.loads(asked), files
                connection.send(str(child).encode())
                children[child] = connection
                for each in files:
                    os.close(each)
            if 0 in there:
                sys.exit()


def _tell_of_ended(children: dict[int, socket.socket]) -> None:
    while children:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        with children.pop(child) as connection, suppress(OSError):
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def become(asked: Any, files: list[int]) -> None:
    """Be what was asked for, to the end."""
    words, folder, environment, own_session = asked
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if own_session:
        os.setsid()
    for place, each in enumerate(files):
        os.dup2(each, place)
        os.close(each)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = sys.__stdin__ = os.fdopen(0, "r", closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)  # type: ignore[misc]
    code = _ended_with(words)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    # Not `sys.exit`: to take apart all that was read beforehand takes longer than most commands.
    os._exit(code)


def _ended_with(words: list[str]) -> int:
    """Run a program as `python` runs it; its exit code."""
    if words[:2] == ["-W", "error"]:
        warnings.simplefilter("error")
        del words[:2]
    first, *rest = words
    # Where Python looks first: the folder, or that of the file.
    sys.path.insert(0, str(Path(first).parent.resolve()) if first[0] != "-" else str(Path.cwd()))
    try:
        if first == "-m":
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            sys.argv = ["-c", *rest[1:]]
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = words
            runpy.run_path(first, run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return int(ended.code or 0) & 255
        print(ended.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - as Python does it
        traceback.print_exc()
        return 1
    return 0


def _read_all() -> None:
    """Load every module of Memoranda that can be, and let nobody look through them for garbage."""
    import memoranda

    gc.disable()
    for each in pkgutil.walk_packages(memoranda.__path__, "memoranda.", onerror=lambda _: None):
        # Those of an adapter, or of a database, whose library is not there.
        if not each.name.endswith(".__main__"):
            with suppress(ImportError):
                importlib.import_module(each.name)
    for name in OTHERS:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    del sys.path[0]
    _read_all()
    become(*serve(sys.argv[1]))
