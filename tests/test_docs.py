"""What is documented is true: links lead somewhere, settings are listed, examples run."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from tools.readme_metadata import with_absolute_links
from tools.site import EXAMPLES, MADE

from memoranda.settings import Settings
from memoranda.storage.postgres.server import OLDEST_VERSION

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])

# The first page of the site introduces itself by its picture, and a decision by its context.
GUIDED = [
    page for page in PAGES if "docs" in page.parts and page.parent.name != "adr" and page != ROOT / "docs" / "index.md"
]
WITH_PYTHON = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / name
        for name in ("index.md", "howto/cal.md", "howto/frameworks.md", "howto/openwop.md", "standards/cal.md")
    ),
]
# Pages that tools/site.py writes from the code.
GENERATED = {f"reference/{name}.md" for name in MADE}
# Run between the commands of their page (tests/cli/test_pages.py), or beside what they print (tests/cli).
# Folders and files of users and examples.
FOREIGN_PATHS = ("notes/", "dids/", "sync/", "build/", "dist/", "src/app.py", "src/time/")
PYTHON_ELSEWHERE = {"docs/tutorial.md", *(f"docs/howto/{name}.md" for name in ("consolidate", "grains", "oams"))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists() and t not in GENERATED]
    assert missing == []


def test_every_setting_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    for each in fields(Settings):
        assert f"`MEMORANDA_{each.name.upper()}`" in text
        assert each.metadata["meaning"] in text


def test_the_page_about_postgresql_names_the_versions_that_the_tests_run_on() -> None:
    page = (ROOT / "docs" / "howto" / "postgresql.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    versions = dict(re.findall(r"^(OLDEST|NEWEST)_POSTGRES := (\d+)$", makefile, re.MULTILINE))
    oldest, newest = versions["OLDEST"], versions["NEWEST"]
    assert int(oldest) == OLDEST_VERSION
    assert f"PostgreSQL {oldest} or later is required" in page
    assert f"All tests run on versions {oldest} and {newest}" in page


def test_every_bound_that_is_stated_has_its_test() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = page.partition("| resource or attack | bound | test |")[2].partition("\n\n")[0].strip().splitlines()[1:]
    named = [re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row) for row in rows]
    assert len(rows) > 15
    assert all(named)
    for path, name in (each for found in named for each in found):
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"


def test_every_promise_of_the_threat_model_has_tests() -> None:
    page = (ROOT / "docs" / "explanation" / "threat-model.md").read_text(encoding="utf-8")
    rows = page.partition("| promise | attacked by |")[2].partition("\n\n")[0].strip().splitlines()[1:]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py|make \w+)`", row)
        assert named, row
        assert all((ROOT / name).exists() for name in named if name.startswith("tests/")), row


def test_the_readme_fits_and_shows_its_two_commands_first() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 150
    first_screen = "\n".join(lines[:30])
    assert "make serve" in first_screen
    assert "make test" in first_screen


def test_links_of_the_readme_are_absolute_on_a_package_index() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = with_absolute_links(readme, "https://host.example/r", "v1.0.0")
    targets = re.findall(r"\]\(([^)]+)\)", shown)
    assert "https://host.example/r/blob/v1.0.0/docs/tutorial.md" in targets
    assert "https://host.example/r/raw/v1.0.0/docs/howto/pictures/console.png" in targets
    assert [target for target in targets if "://" not in target] == []


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_examples_print_what_they_say(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path))
    # As a newcomer has it: with the model that `make install` brings, however busy the machine is.
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "auto")
    monkeypatch.setattr("memoranda.app.PATIENCE_SECONDS", 300.0)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(page), "exec"), {})
        printed = capsys.readouterr().out
        for promised in re.findall(r"print\(.*\)  # (.*)$", block, flags=re.MULTILINE):
            assert promised in printed or promised.startswith("framed")


@pytest.mark.parametrize("standard", EXAMPLES)
def test_the_example_of_each_standard_prints_what_it_says(standard: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(EXAMPLES[standard], standard, "exec"), {})
    expected = re.findall(r"print\(.*\)  # (.*)$", EXAMPLES[standard], flags=re.MULTILINE)
    assert expected == capsys.readouterr().out.splitlines()


def test_every_page_with_python_is_run() -> None:
    found = {str(page.relative_to(ROOT)) for page in PAGES if "```python\n" in page.read_text(encoding="utf-8")}
    assert found == {*(str(page.relative_to(ROOT)) for page in WITH_PYTHON), *PYTHON_ELSEWHERE}


@pytest.mark.parametrize(
    "module", ["memoranda.app", "memoranda.aio", "memoranda.library.memories", "memoranda.bindings.files.convert"]
)
def test_the_library_examples_in_the_docstrings_run(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import doctest
    from importlib import import_module

    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path))
    results = doctest.testmod(import_module(module))
    assert results.attempted
    assert not results.failed


def test_every_page_is_in_the_menu_of_the_site() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not re.search(rf"[-:] {page}\n", menu)] == []


@pytest.mark.parametrize("page", GUIDED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_begins_with_its_readers(page: Path) -> None:
    text = re.sub(r"<!--.*?-->\s*", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert re.match(r"# .+\n\nFor [a-z]", text)


def test_every_module_that_a_page_names_exists() -> None:
    """Check the paths in backticks below the root, `src/memoranda`, or the folder that the line names before."""
    roots = [ROOT, ROOT / "src", ROOT / "src" / "memoranda", ROOT / "tests", ROOT / "docs" / "standards"]
    missing = []
    for page in PAGES:
        if "adr" in page.parts or page.name == "CHANGELOG.md":
            continue
        for line in page.read_text(encoding="utf-8").splitlines():
            folders = list(roots)
            for name in re.findall(r"`((?:[\w-]+/)+|(?:[\w-]+/)*[\w*]+\.py)(?:::\w+)?`", line):
                found = [folder / name for folder in folders if any(folder.glob(name))]
                if not found and not name.startswith(FOREIGN_PATHS):
                    missing.append(f"{page.relative_to(ROOT)}: {name}")
                folders = [*roots, *(path.parent for path in found)]
    assert missing == []


def test_a_name_with_its_module_behind_it_is_in_that_module() -> None:
    missing = []
    for page in PAGES:
        for name, module in re.findall(r"`(\w+)` \(`([\w/]+\.py)`\)", page.read_text(encoding="utf-8")):
            path = ROOT / "src" / "memoranda" / module
            if "adr" not in page.parts and path.exists() and not re.search(rf"\b{name}\b", path.read_text("utf-8")):
                missing.append(f"{page.relative_to(ROOT)}: {name} in {module}")
    assert missing == []


def test_no_page_names_a_machine_path() -> None:
    assert [p for p in PAGES if re.search(r"/(root|work|home/[a-z]+)/", p.read_text(encoding="utf-8"))] == []


def test_every_decision_that_the_source_cites_is_on_its_page() -> None:
    cited = re.compile(r"(\w+)\.md, \*([^*]+)\*")
    for path in sorted((ROOT / "src").rglob("*.py")):
        for page, name in cited.findall(path.read_text(encoding="utf-8")):
            text = (ROOT / "docs" / "standards" / f"{page}.md").read_text(encoding="utf-8")
            assert f"\n| {name} |" in text, f"{path}: {page}.md has no row {name!r}"
