"""A separate process that reads files, with limited memory and processor time.

A server imports files that strangers made. Such a file may make a parser use any amount of either, and may crash a
parser written in C: then only the reader ends, and the server reports the reason.

    server                                      reader
    starts it, with a request on its input   →  limits itself, then reads the files
    imports the memories one by one          ←  messages on its output: four bytes of length, then MessagePack
    ends it, also after an error                ends when its input does: a server that died needs no reader

The reader is a new interpreter, not a fork: a copy of a process with threads may wait for ever for a lock that one of
them had. It gets no settings, no store, and only the environment variables that an interpreter needs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from memoranda.bindings.files.importers.importer import Survey
from memoranda.errors import (
    BY_CODE,
    InvalidInput,
    MemorandaError,
    StoreUnavailable,
    TooLarge,
    words_of,
)
from memoranda.service.exchange.importing import Item
from memoranda.service.exchange.report import Report

MEBIBYTE: Final = 1_048_576
# Memory without a file: parsers that are imported later, and many copies of the largest single document.
_MEMORY_BYTES: Final = 512 * MEBIBYTE
# Memory per byte of a file: its bytes, a copy while they are parsed, and the parsed objects.
_MEMORY_PER_BYTE: Final = 8
# The limit for any file; a server runs at most two readers.
_MOST_MEMORY_BYTES: Final = 3 * 1024 * MEBIBYTE
# A file is read twice, to count and to import; a mebibyte takes a tenth of a second each time on a fast machine.
_PROCESSOR_SECONDS: Final = 60
_PROCESSOR_SECONDS_PER_MEBIBYTE: Final = 1
# Size of a scratch file, for decompressing a container or sorting the rows of a database.
_SCRATCH_BYTES: Final = 1024 * MEBIBYTE
# Size of a message: the largest grain or memory twice, as bytes and as fields.
_MAX_MESSAGE_BYTES: Final = 32 * MEBIBYTE
# Size of the length before each message.
_LENGTH_BYTES: Final = 4
# Exit code of a reader without memory for a last message.
_NO_MEMORY: Final = 71
# Exit codes of a reader that the system ended: no memory left on the machine, or its processor time used up.
_KILLED: Final = -getattr(signal, "SIGKILL", 9)
_OUT_OF_TIME: Final = -getattr(signal, "SIGXCPU", 24)
_ENVIRONMENT: Final = (
    *("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT"),
    *("TMPDIR", "TEMP", "TMP", "LANG", "LC_ALL", "LC_CTYPE"),
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a reader process, in addition to what the process uses before it opens a file."""

    memory_bytes: int
    processor_seconds: int

    @classmethod
    def of(cls, size_bytes: int) -> Limits:
        """Return the limits for files of this size."""
        return cls(
            memory_bytes=min(_MEMORY_BYTES + _MEMORY_PER_BYTE * size_bytes, _MOST_MEMORY_BYTES),
            processor_seconds=_PROCESSOR_SECONDS
            + _PROCESSOR_SECONDS_PER_MEBIBYTE * (size_bytes // MEBIBYTE),
        )


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The files to read, and how."""

    names: list[str]
    # A form or a system that replaces recognition, and the owner hash of the importing owner.
    form: str | None = None
    own: str = ""
    # True if the memories get another namespace; refused for records and grains.
    is_moved: bool = False
    # The caller wants a survey of the files, or the number of memories, before the first memory.
    is_surveyed: bool = False
    is_counted: bool = False
    limits: Limits


class _SurveyMessage(msgspec.Struct, tag="surveyed"):
    """The survey of a source of another system."""

    name: str
    system: str
    survey: Survey


class _CountMessage(msgspec.Struct, tag="counted"):
    """The number of memories in all files."""

    count: int


class _ItemMessage(msgspec.Struct, tag="brought"):
    """One memory, or the error in its place."""

    item: Item


class _EndMessage(msgspec.Struct, tag="ended"):
    """The end of the files; the report names those that could not be read at all."""

    report: Report


class _RefusalMessage(msgspec.Struct, tag="failed"):
    """The request was refused."""

    error: MemorandaError


class _CrashMessage(msgspec.Struct, tag="broken"):
    """An unexpected error: its type and position, but not its message, which may quote the file."""

    error: str


# Called with a source of another system, the title of the system, and the counts of its contents.
OnSurvey = Callable[[str, str, Survey], None]
_Message = (
    _SurveyMessage | _CountMessage | _ItemMessage | _EndMessage | _RefusalMessage | _CrashMessage
)


def _encode_error(value: object) -> object:
    if isinstance(value, MemorandaError):
        return value.code, value.message
    raise NotImplementedError


def _decode_error(kind: type, value: Any) -> object:
    if kind is not MemorandaError:
        raise NotImplementedError
    code, message = value
    return BY_CODE.get(code, InvalidInput)(message)


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_encode_error)
_MESSAGES: Final = msgspec.msgpack.Decoder(_Message, dec_hook=_decode_error)
_REQUESTS: Final = msgspec.msgpack.Decoder(Request)


# --- the server's side -----------------------------------------------------------------------------------------------


@contextmanager
def read_in_process(
    request: Request,
    report: Report,
    on_survey: OnSurvey | None,
    on_count: Callable[[int], None] | None,
) -> Iterator[Iterator[Item]]:
    """Read the files of a request in a process that ends with this context; yield their memories.

    Before the first memory, `on_survey` gets the contents of each source of another system, and `on_count` the number
    of memories. After the last, files that could not be read are added to the report. Raises MemorandaError.
    """
    with _start_reader(request) as process:
        yield _receive_items(process, request, report, on_survey, on_count)


@contextmanager
def _start_reader(request: Request) -> Iterator[subprocess.Popen[bytes]]:
    name = main.__name__
    program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import {name}; {name}()"
    try:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        )
    except OSError as error:
        raise StoreUnavailable(
            f"no process can be started to read the file: {words_of(error)}"
        ) from None
    assert process.stdin is not None
    try:
        # If the reader ended at once, reading its first message reports it.
        with suppress(BrokenPipeError):
            _send(process.stdin, request)
        yield process
    finally:
        process.kill()
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _receive_items(
    process: subprocess.Popen[bytes],
    request: Request,
    report: Report,
    on_survey: OnSurvey | None,
    on_count: Callable[[int], None] | None,
) -> Iterator[Item]:
    assert process.stdout is not None
    while (data := _receive(process.stdout)) is not None:
        message = _MESSAGES.decode(data)
        if isinstance(message, _ItemMessage):
            yield message.item
        elif isinstance(message, _SurveyMessage):
            if on_survey is not None:
                on_survey(message.name, message.system, message.survey)
        elif isinstance(message, _CountMessage):
            if on_count is not None:
                on_count(message.count)
        elif isinstance(message, _RefusalMessage):
            raise message.error
        elif isinstance(message, _CrashMessage):
            raise RuntimeError(f"the reader of files failed: {message.error}")
        else:
            report.add(message.report)
            return
    error = _end_reason(process.wait(), request.limits)
    yield Item(form="ump", where=", ".join(request.names), error=error)


def _end_reason(code: int, limits: Limits) -> MemorandaError:
    """Return the error for an exit code that a file caused. Raises RuntimeError for any other."""
    if code >= 0 and code != _NO_MEMORY:
        raise RuntimeError(f"the reader of files ended with {code}")
    advice = "the rest of it was not read; split it, or take it in with 'memoranda import' on the server's machine"
    if code in (_NO_MEMORY, _KILLED):
        return TooLarge(
            f"reading it takes more than {limits.memory_bytes // MEBIBYTE} MiB of memory: {advice}"
        )
    if code == _OUT_OF_TIME:
        return TooLarge(
            f"reading it takes more than {limits.processor_seconds} s of processor time: {advice}"
        )
    return InvalidInput("it is damaged so that reading it crashes; the rest of it was not read")


# --- the reader's side -----------------------------------------------------------------------------------------------


def main() -> None:
    """Read the files of the request on standard input, and write their memories to standard output."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Text that a library prints must not mix with the messages.
    sys.stdout = sys.stderr
    data = _receive(sys.stdin.buffer)
    if data is None:
        return
    request = _REQUESTS.decode(data)
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        _serve_request(request, answers)
        answers.flush()
    except MemoryError:
        os._exit(_NO_MEMORY)
    except BrokenPipeError:
        pass
    # A thread still reads the input; it must not delay the end.
    os._exit(0)


def _end_with_input() -> None:
    """End this process when its input ends, which means that the server died."""
    with suppress(OSError):
        sys.stdin.buffer.read()
    os._exit(0)


def _serve_request(request: Request, answers: IO[bytes]) -> None:
    # Imported before the limits are set, so that its memory does not count; and here, because it imports this module.
    from memoranda.bindings.files import exchange

    def send_survey(name: str, system: str, survey: Survey) -> None:
        _send(answers, _SurveyMessage(name, system, survey))

    def send_count(count: int) -> None:
        _send(answers, _CountMessage(count))

    report = Report()
    try:
        _limit_process(request.limits)
        items = exchange.read_sources(
            request.names,
            request.form,
            request.own,
            report,
            is_moved=request.is_moved,
            on_survey=send_survey if request.is_surveyed else None,
            on_count=send_count if request.is_counted else None,
        )
        for item in items:
            _send_item(answers, item)
        _send(answers, _EndMessage(report))
    except MemorandaError as error:
        _send(answers, _RefusalMessage(error))
    except (MemoryError, BrokenPipeError):
        raise
    # The server logs it.
    except Exception as error:  # noqa: BLE001
        _send(answers, _CrashMessage(_error_location(error)))


def _limit_process(limits: Limits) -> None:
    """Limit this process; Windows has no such limits, and macOS none of memory. Raises StoreUnavailable."""
    with suppress(OSError):
        # If the machine runs out of memory, the system ends this process first.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    try:
        import resource
    except ImportError:
        return
    used_seconds = int(time.process_time()) + 1
    values = {
        resource.RLIMIT_AS: _address_space_bytes() + limits.memory_bytes,
        resource.RLIMIT_CPU: used_seconds + limits.processor_seconds,
        resource.RLIMIT_FSIZE: _SCRATCH_BYTES,
        # No core dump: it would leave the memories on disk.
        resource.RLIMIT_CORE: 0,
    }
    for kind, value in values.items():
        _, hard_limit = resource.getrlimit(kind)
        try:
            resource.setrlimit(
                kind,
                (
                    value if hard_limit == resource.RLIM_INFINITY else min(value, hard_limit),
                    hard_limit,
                ),
            )
        except (ValueError, OSError):
            if sys.platform == "linux":
                raise StoreUnavailable(
                    "files are not read here: the system does not let the server limit what reading them takes "
                    "(the system calls setrlimit and prlimit64)"
                ) from None


def _address_space_bytes() -> int:
    """Return the size of the address space of this process; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").partition(" ")[0])
    except (OSError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _error_location(error: Exception) -> str:
    """Return the type of an error, and the file and line that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__
    file = Path(trace.tb_frame.f_code.co_filename).name
    return f"{type(error).__name__} at {file}:{trace.tb_lineno}"


def _send_item(answers: IO[bytes], item: Item) -> None:
    try:
        _send(answers, _ItemMessage(item))
    except (ValueError, TypeError, OverflowError, RecursionError, NotImplementedError):
        # Lone surrogates, integers of more than 64 bits, nesting too deep or size too large for a memory of any form.
        error = InvalidInput("it has values that no memory can hold")
        location = item.where.encode("utf-8", "replace").decode("utf-8")
        _send(
            answers,
            _ItemMessage(Item(form=item.form, where=location, number=item.number, error=error)),
        )


# --- messages --------------------------------------------------------------------------------------------------------


def _send(target: IO[bytes], message: msgspec.Struct) -> None:
    """Write a message. Raises ValueError if it is too large, and the errors of the encoder."""
    data = _ENCODER.encode(message)
    if len(data) > _MAX_MESSAGE_BYTES:
        raise ValueError("a message that is too large")
    target.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    if not isinstance(message, _ItemMessage):
        target.flush()


def _receive(source: IO[bytes]) -> bytes | None:
    """Return the next message; None at the end, and for an incomplete message."""
    length = int.from_bytes(source.read(_LENGTH_BYTES), "big")
    if not 0 < length <= _MAX_MESSAGE_BYTES:
        return None
    data = source.read(length)
    return data if len(data) == length else None
