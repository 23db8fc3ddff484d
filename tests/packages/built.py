"""Wheel and sdist, built, installed into empty environments and used there as people use them.

Run by `make test-packages`, which first brings what is installed here (tests/packages/bringing.py).
"""

from __future__ import annotations

import io
import os
import re
import socket
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from tests.embedders import WORDS_ALONE
from tests.packages.bringing import INSTALL_SECONDS, MODEL, SMALL_EXTRAS, offline
from tests.waiting import HANG_SECONDS
from tools import more_packages

from memoranda import __version__
from memoranda.embedding.catalogue import DEFAULT_MODELS
from memoranda.encoding.json_text import dump, parse

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "memoranda"
EXTRAS: list[str] = list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
# Nothing is asked of an index of packages: what is red here is our fault.
OFFLINE = offline(Path(os.environ["MEMORANDA_TEST_PACKAGES"]))
# Bytes of all files in an environment, without compiled ones: what a person waits for and keeps.
WHOLE_BYTES = 110_000_000
CLIENT_BYTES = 15_000_000
# What asks for an extra by importing it.
ADAPTERS = sorted({path.stem for path in (SOURCE / "adapters").glob("[a-z]*.py")} - {"questions"})


def built(folder: Path, *, umask: int = 0o022) -> tuple[Path, Path]:
    """Wheel and sdist, as `make dist` builds them."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}
    subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=HANG_SECONDS, umask=umask
    )
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return built(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheels of the client and of the models."""
    client, models = more_packages.build(ROOT, tmp_path_factory.mktemp("more"))
    return client, models


class Installed:
    """An environment with nothing in it but Memoranda and what it needs, and an empty home."""

    def __init__(self, folder: Path, package: Path) -> None:
        self.home, self.bin = folder / "home", folder / "environment" / "bin"
        self.home.mkdir()
        self.uv("venv", "--quiet", "--python", sys.executable, str(self.bin.parent))
        self.package = package
        self.install(str(package))

    def uv(self, *words: str) -> None:
        # Beside the interpreter, which is asked for by name where it is in no environment that was entered.
        uv = Path(sys.executable).with_name("uv")
        environment = {**os.environ, **OFFLINE}
        subprocess.run([uv, *words], check=True, env=environment, capture_output=True, timeout=INSTALL_SECONDS)

    def install(self, what: str) -> None:
        where = ["--python", str(self.bin / "python"), "--constraints", str(ROOT / "requirements-dev.lock")]
        self.uv("pip", "install", "--quiet", *where, what)

    @property
    def size(self) -> int:
        """The size of all that is installed, without what Python compiles."""
        (folder,) = self.bin.parent.glob("lib/python*/site-packages")
        files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return sum(path.stat().st_size for path in files)

    @property
    def environment(self) -> dict[str, str]:
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("MEMORANDA_", "PYTHON", "VIRTUAL_ENV"))}
        return {**kept, **WORDS_ALONE, "HOME": str(self.home), "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}

    def run(self, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            env=self.environment,
            cwd=self.home,
            input=given,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
        )

    def prints(self, *command: str, given: str = "") -> str:
        ran = self.run(*command, given=given)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    @contextmanager
    def served(self, **more: str) -> Iterator[dict[str, str]]:
        """What `memoranda --json serve` says it is, with the extra that it needs."""
        self.install(f"memoranda[server] @ {self.package.as_uri()}")
        command = [str(self.bin / "memoranda"), "--json", "serve", "--port", "0"]
        environment = {**self.environment, **more}
        with subprocess.Popen(command, env=environment, cwd=self.home, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                yield parse(process.stdout.readline())
            finally:
                process.terminate()
        assert process.returncode == 0


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def installed(
    request: pytest.FixtureRequest, packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    return Installed(tmp_path_factory.mktemp(request.param), packages[request.param == "sdist"])


def files_below_source() -> set[str]:
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/memoranda"]
    listed = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True, timeout=HANG_SECONDS).stdout
    return {name.removeprefix("src/") for name in listed.splitlines() if (ROOT / name).exists()}


def test_the_wheel_holds_all_of_the_source_and_nothing_else(packages: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(packages[0]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        about = {name.partition(".dist-info/")[2] for name in archive.namelist()} - {""}
    # The commit, if the source is a checkout.
    source, archive_name = files_below_source(), "memoranda/bindings/console/resources.zip"
    packed = {name for name in source if re.match(r"memoranda/bindings/console/(static|templates|texts)/", name)}
    assert names - {"memoranda/build.txt", archive_name} == source - packed
    with zipfile.ZipFile(packages[0]) as wheel, zipfile.ZipFile(io.BytesIO(wheel.read(archive_name))) as archive:
        assert {f"memoranda/bindings/console/{name}" for name in archive.namelist()} == packed
    assert {"memoranda/py.typed", "memoranda/storage/sql/postgres/queries.sql"} <= names
    assert {part.split("/")[3] for part in packed} == {"static", "templates", "texts"}
    assert about == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE"}


def test_the_sdist_holds_what_a_wheel_is_built_from(packages: tuple[Path, Path]) -> None:
    with tarfile.open(packages[1]) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    beside = {name for name in names if not name.startswith("src/memoranda/")}
    assert beside - {"CHANGELOG.md", "LICENSE", "NOTICE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore"} == {
        "tools/build_hook.py",
        "tools/readme_metadata.py",
    }
    source = {name.removeprefix("src/") for name in names - beside}
    assert source - {"memoranda/build.txt"} == files_below_source()


def test_the_same_source_gives_the_same_bytes(packages: tuple[Path, Path], tmp_path: Path) -> None:
    again = built(tmp_path, umask=0o077)
    for first, second in zip(packages, again, strict=True):
        assert first.name == second.name
        assert first.read_bytes() == second.read_bytes(), first.name


def test_the_command_says_its_version(installed: Installed) -> None:
    assert installed.prints("memoranda", "--version").startswith(f"{__version__} (build ")
    assert installed.prints("python", "-m", "memoranda", "--version").startswith(__version__)


def test_it_is_no_larger_than_it_need_be(installed: Installed) -> None:
    assert installed.size <= WHOLE_BYTES


def test_what_one_process_remembers_another_recalls(installed: Installed) -> None:
    installed.prints("memoranda", "remember", "use pnpm, never npm", "--project", "shop")
    script = "from memoranda import Memoranda; print(Memoranda.open().recall('npm', project='shop')[0].text)"
    assert installed.prints("python", "-c", script) == "use pnpm, never npm\n"
    assert "use pnpm, never npm" in installed.prints("memoranda", "recall", "npm", "--project", "shop")


def use(server: dict[str, str]) -> None:
    key = Path(server["credential"]).read_text().strip()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    asked = Request(
        f"{server['url']}/ump/remember",
        dump({"kind": "semantic", "body": {"text": "the server is served"}}),
        headers,
    )
    with urlopen(asked, timeout=HANG_SECONDS) as answer:
        assert answer.status == 200
    with urlopen(server["console"], timeout=HANG_SECONDS) as page:
        assert b"</html>" in page.read()
    with urlopen(f"{server['url']}/console/static/console.css", timeout=HANG_SECONDS) as style:
        assert style.status == 200


MCP_CLIENT = """\
import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    async with stdio_client(StdioServerParameters(command="memoranda", args=["mcp"])) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            await session.call_tool("ump_remember", {"text": "an agent was here", "kind": "semantic"})
            answer = await session.call_tool("ump_recall", {"query": "agent"})
            print(answer.content[0].text)

anyio.run(main)
"""


def test_an_agent_uses_it_with_the_official_client_of_mcp(installed: Installed) -> None:
    assert "an agent was here" in installed.prints("python", "-", given=MCP_CLIENT)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_whose_framework_is_missing_says_what_to_install(installed: Installed, adapter: str) -> None:
    ran = installed.run("python", "-c", f"import memoranda.adapters.{adapter}")
    extra = adapter.replace("_", "-")
    assert extra in EXTRAS
    assert ran.returncode == 0 or f"pip install 'memoranda[{extra}]'" in ran.stderr


def test_what_else_is_missing_says_what_to_install(installed: Installed) -> None:
    asked = {
        "server": ("memoranda", "serve", "--port", "0"),
        "watch": ("memoranda", "sync", ".", "--watch"),
        "postgres": ("memoranda", "--store", "postgresql://127.0.0.1:1/none", "stats"),
        "anthropic": ("python", "-c", "from memoranda.adapters.anthropic import memory_tool as t; t(None)"),
    }
    for extra, command in asked.items():
        ran = installed.run(*command)
        assert ran.returncode != 0
        assert f"pip install 'memoranda[{extra}]'" in ran.stderr
    # Without the model's library everything is found by its words.
    assert installed.prints("memoranda", "--json", "models")


@pytest.mark.parametrize("extra", SMALL_EXTRAS)
def test_an_extra_brings_what_it_is_for(installed: Installed, extra: str) -> None:
    imports = {
        "server": "import httptools, jinja2, markdown_it, uvloop",
        "watch": "import watchfiles",
        "prompt": "import memoranda.cli.cal.reader",
        "async": "import greenlet",
        "http2": "import h2",
        "embed": "import onnxruntime",
        "tokens": "from memoranda.standards.cal.printing.counter import make_counter as c; c('o200k_base').count('a')",
        "postgres": "import memoranda.storage.postgres.database",
        "otel": "from memoranda.spans import exporter_named as e; e('otlp', is_one_line=False).shutdown()",
        "langgraph": "from memoranda.adapters.langgraph import MemorandaStore",
    }
    assert installed.run("python", "-c", imports[extra]).returncode != 0
    installed.install(f"memoranda[{extra}] @ {installed.package.as_uri()}")
    installed.prints("python", "-c", imports[extra])


def test_the_server_answers_over_http_and_shows_the_console(installed: Installed) -> None:
    address = str(installed.home / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        with installed.served(NOTIFY_SOCKET=address) as server:
            # As Type=notify of systemd hears it.
            assert manager.recv(1_000).decode() == f"READY=1\nSTATUS=Serving at {server['url']}"
            use(server)
    assert "the server is served" in installed.prints("memoranda", "recall", "served")


CLIENT = """\
import asyncio, sys
from memoranda import AsyncMemoranda, Memoranda, NotFound, Unsupported

url, key = sys.argv[1:]
with Memoranda.open(url, key=key) as m:
    m.remember("a client was here", project="far")
    print(m.recall("client", project="far")[0].text)
    m.oams.store("tea", "green")
    print(m.oams.get("tea").memory["value"])
    tea = {"type": "belief", "subject": "ada", "relation": "prefers", "object": "tea", "confidence": 0.9}
    stored = m.grains.put({**tea, "created_at": "2026-01-15T10:00:00Z"})
    print(m.grains.get(stored.address).grain.fields["object"])
    print(len(m.cal("RECALL beliefs LIMIT 1")["results"]))
    print(m.openwop.list_entries is not None, m.verify().ok, len(list(m.export())) >= 3)
    try:
        m.get("ump:sha256:" + "0" * 64)
    except NotFound:
        print("not found")
try:
    Memoranda.open(":memory:")
except Unsupported as error:
    print("pip install memoranda" in str(error))

async def main():
    async with AsyncMemoranda.open(url, key=key) as m:
        print((await m.recall("client", project="far"))[0].text)

asyncio.run(main())
assert not {"apsw", "numpy", "mcp", "cryptography"} & set(sys.modules)
"""


def test_the_client_uses_every_standard_of_a_server(
    installed: Installed, more: tuple[Path, Path], tmp_path: Path
) -> None:
    client = Installed(tmp_path, more[0])
    assert client.size <= CLIENT_BYTES
    with installed.served() as server:
        key = Path(server["credential"]).read_text().strip()
        shown = client.prints("python", "-c", CLIENT, server["url"], key).splitlines()
    assert shown == [
        "a client was here",
        "green",
        "tea",
        "1",
        "True True True",
        "not found",
        "True",
        "a client was here",
    ]


def test_the_package_of_models_is_found(installed: Installed, more: tuple[Path, Path]) -> None:
    installed.install(str(more[1]))
    models = parse(installed.prints("memoranda", "--json", "models", "list"))["models"]
    assert [model["name"] for model in models if model["folder"]] == [known.name for known in DEFAULT_MODELS]
    assert "memoranda_models" in models[0]["folder"]
    assert parse(installed.prints("memoranda", "--json", "models", "verify"))["ok"]
    with zipfile.ZipFile(more[1]) as archive:
        about = {name.partition(".dist-info/")[2] for name in archive.namelist() if ".dist-info/" in name}
    assert {"licenses/LICENSE", "licenses/NOTICE"} <= about


def test_the_same_files_give_the_same_packages(more: tuple[Path, Path], tmp_path: Path) -> None:
    for first, second in zip(more, more_packages.build(ROOT, tmp_path), strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name


def test_uv_puts_the_command_on_the_path_and_brings_models(packages: tuple[Path, Path], tmp_path: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    path = f"{uv.parent}{os.pathsep}{os.environ['PATH']}"
    places = {"UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin", "MEMORANDA_MODELS": "models"}
    folders = {name: str(tmp_path / place) for name, place in places.items()}
    # The publisher of the models cannot be reached, so that the package is taken that was brought.
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": ""}
    environment = {**os.environ, **OFFLINE, **folders, **nowhere, "PATH": path}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS
        )

    lock = ["--constraints", str(ROOT / "requirements.lock")]
    run(str(uv), "tool", "install", "--quiet", "--python", sys.executable, *lock, str(packages[0]))
    memoranda = str(tmp_path / "bin" / "memoranda")
    assert run(memoranda, "--version").stdout.startswith(__version__)
    # Such an environment has no pip.
    said = run(memoranda, "models", "add", MODEL.name).stderr
    assert list(tmp_path.glob(f"models/{MODEL.name}@*/model.onnx"))
    assert "pip install 'memoranda[embed]'" in said


def test_systemd_takes_the_unit_and_finds_little_exposed(tmp_path: Path) -> None:
    unit = (ROOT / "deploy" / "systemd" / "memoranda.service").read_text(encoding="utf-8")
    path = tmp_path / "memoranda.service"
    path.write_text(unit.replace("/opt/memoranda/bin/memoranda", str(Path(sys.executable).with_name("memoranda"))))
    for asked in (["verify", "--man=no"], ["security", "--offline=yes", "--threshold=20"]):
        ran = subprocess.run(["systemd-analyze", *asked, path], capture_output=True, text=True, timeout=HANG_SECONDS)
        assert ran.returncode == 0, ran.stdout + ran.stderr
