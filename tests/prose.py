"""Readers of the words in the source and on the pages: docstrings, comments, names and sentences that are hard to read.

`python -m tests.prose [PATH ...]` lists the findings of Python files and Markdown pages, and of folders of either.
`python -m tests.prose --lower` writes down the lower counts.
`tests/test_prose.py` compares the counts of each package with `tests/prose_counts.json`: a count may only fall.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = ROOT / "src" / "memoranda"
COUNTS: Final = Path(__file__).with_name("prose_counts.json")
PAGES: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "clients/typescript/README.md")

# Openings that make a sentence without a verb of its own.
OPENINGS: Final = re.compile(
    r"(what|whether|who|whom|whose|whoever|whatever|those|of|that|where|how|when|the same|and|so many|as many)\b",
    re.IGNORECASE,
)
# Participles and pronouns that say neither what a value is nor what a function does.
BARE: Final = frozenset(
    "said asked found kept told given shown known made named listed taken left held sought called read written place "
    "each others rest these those what whole beside "
    "applied bare changed checked chosen closed counted cut declared done due earlier ended joined later listing "
    "matched merged mine more most new old opened ordered own parsed picked plain prepared ready rich sampled "
    "sealed seen selected sent signed split started stated stored theirs used wanted way".split()
)
# Public names that users rely on, by class or function: fields of results, and keywords.
PUBLIC: Final = frozenset(
    "Report.kept UndoneImport.what UndoneImport.left Undone.left Consolidated.taken"
    " ConversionResult.written UserErasure.held set_hold.held distill.given".split()
)
# Verbs with which the docstring of a function may open. A verb that is missing may be added.
VERBS: Final = frozenset(
    """
    abort accept acknowledge acquire activate add adjust admit adopt advance align allocate allow answer append apply
    approve archive arrange ask assemble assert assign attach attempt audit authenticate authorize
    back backfill batch begin bind block break bring build bump
    cache calculate call cancel canonicalize cap carry cast catch change charge check choose claim classify clean clear
    click close collapse collect combine commit compact compare compile complete compose compress compute concatenate
    confirm connect consolidate construct consume continue convert copy correct count cover create cut
    deactivate decide declare decline decode decompress decrease decrypt deduplicate default defer define delay
    delegate delete deliver deny derive describe deserialize destroy detect determine digest disable discard discover
    dispatch display distill distribute divide do download drain drive drop dump
    edit elect embed emit empty enable encode encrypt end enforce enqueue ensure enter enumerate erase escape establish
    estimate evaluate examine exchange exclude execute exit expand expect expire explain export expose express extend
    extract
    fail fetch fill filter find finish fire fit fix flatten flush fold follow forbid force forget format forward frame
    free freeze
    gather generate get give grant group guard guess
    handle hash hide hold honor
    identify ignore implement import include increase increment index indicate infer initialize inject insert inspect
    install interpret intersect invalidate invoke issue iterate
    join judge
    keep kill
    label lay lead leave let limit link list listen load locate lock log look lower
    make manage map mark match materialize measure merge migrate move
    name narrow negotiate normalize note notify number
    obtain offer omit open order override
    pack pad page parse pass patch perform permit persist pick plan poll pop prefer prefix prepare present preserve
    prevent print process produce project promote prompt propose protect prove provide prune publish pull purge push put
    query queue quote
    raise rank reach read rebuild recall receive recognize recompute reconcile reconnect record recover redact redirect
    reduce refer refresh refuse regenerate register reindex reject release reload remember remind remove rename render
    reopen reorder repair repeat replace replay reply report request require rerank reschedule reserve reset resolve
    respond restore restrict resume retain retry retrieve return reuse reverse revert revise revoke rewrite roll rotate
    round route run
    save scan schedule score scrub search see seed select send separate serialize serve set settle shorten show shut
    sign simplify skip sleep sort spawn split start stay step stop store stream strip submit substitute subtract sum
    summarize supersede supply suppress swap synchronize
    tag take tell terminate test throttle tighten time toggle tokenize tombstone trace track transform translate
    traverse treat trigger trim truncate try turn
    undo unescape unlock unpack unquote unwrap update upgrade upload use
    validate verify visit
    wait wake walk warn watch weigh wipe withdraw withhold work wrap write
    yield
    """.split()
)
# Phrases that only we understand, or that hide who does what.
PRIVATE: Final = re.compile(
    r"\b(anew|whoever|whomever|unless said|to the letter|comes? to (?:it|nothing|the same)|takes? back|taken back"
    r"|took back|so many of|as many as there are|is told apart|says? again|made anew|by a hair|says? of itself"
    r"|is of no use|what there is to|nobody of|what becomes of|for good and all|what is said of)\b",
    re.IGNORECASE,
)
# Openings of a sentence on a page that has no subject of its own. A question may open with them.
PAGE_OPENINGS: Final = re.compile(
    r"(what|whether|who|whom|whose|whoever|whatever|those|of|that|the same|and|so many|as many)\b", re.IGNORECASE
)
# Words that pages use in a sense of our own; docs/glossary.md has the terms that replace them.
PAGE_PRIVATE: Final = re.compile(
    r"\b(beside|is told|are told|was told|told of|taken in|takes? in|left over|all the same|by itself|by themselves"
    r"|unasked|as it is|as they are|as it was|as they were|as it came|as before|stays? so|says? so|said so"
    r"|by (?:their |its )?meaning|by (?:their |its )?words|legs?|doors?|what it says|what they say"
    r"|brings? (?:it|them) back|once more|for nothing|in the place of|in its place|nothing of"
    r"|is asked|are asked|asked for|asked of|is said|are said)\b",
    re.IGNORECASE,
)
# Words: a longer sentence holds more than one idea.
SENTENCE_WORDS: Final = 35
# Sentences: a longer paragraph is a list, or two paragraphs.
PARAGRAPH_SENTENCES: Final = 6
# Units that the comment of a limit may name.
UNITS: Final = re.compile(
    r"\b(bytes?|[kmg]i?b|characters?|letters?|digits?|bits?|seconds?|milliseconds?|minutes?|hours?|days?|weeks?|months?|"
    r"years?|ms|entries|items?|rows?|records?|memor(?:y|ies)|versions?|documents?|grains?|requests?|results?|hits?|"
    r"levels?|depth|files?|lines?|words?|tokens?|terms?|tags?|names?|keys?|values?|fields?|columns?|pages?|threads?|"
    r"process(?:es)?|connections?|clients?|workers?|owners?|tenants?|sessions?|events?|messages?|subscri(?:bers?|ptions?)|"
    r"streams?|retries|attempts?|steps?|nodes?|edges?|vectors?|dimensions?|segments?|queries|statements?|calls?|runs?|"
    r"parts?|blocks?|notes?|folders?|proposals?|commitments?|schedules?|hosts?|links?|redirects?|sources?|"
    r"relations?|conditions?|sentences?|candidates?|texts?|percent|ratio|share|fraction|score|weight|elements?|objects?|"
    r"arguments?|parameters?|options?|times?|rounds?|hops?|peers?|grants?|places?|entities|elements?)\b",
    re.IGNORECASE,
)
LIMIT_NAME: Final = re.compile(r"_?[A-Z0-9_]*(LIMIT|MAX|SECONDS|BYTES|CHARS|COUNT|SIZE|DEPTH)[A-Z0-9_]*")

KINDS: Final = ("opening", "mood", "name", "private", "limit", "long", "paragraph")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A text or a name that a rule objects to."""

    kind: str
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT).as_posix()}:{self.line}: {self.kind}: {self.text}"


def package_of(path: Path) -> str:
    """Return the package that a file is counted with, two levels deep."""
    parts = path.relative_to(SOURCE).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0] if len(parts) > 1 else "."


def read_file(path: Path) -> list[Finding]:
    """List the findings of one source file."""
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    findings = [*_check_docstrings(path, tree), *_check_names(path, tree), *_check_comments(path, source)]
    findings += _check_limits(path, tree, source.splitlines())
    if path.stem.strip("_") in BARE:
        findings.append(Finding(kind="name", path=path, line=1, text=f"module {path.stem}"))
    return findings


def _check_docstrings(path: Path, tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            continue
        text = ast.get_docstring(node)
        if not text:
            continue
        line, opening = getattr(node, "lineno", 1), text.partition("\n")[0][:100]
        if OPENINGS.match(text):
            yield Finding(kind="opening", path=path, line=line, text=opening)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_property(node):
            verb = re.match(r"[A-Za-z]+", text)
            if verb is None or verb[0].lower() not in VERBS:
                yield Finding(kind="mood", path=path, line=line, text=opening)
        if phrase := PRIVATE.search(text):
            yield Finding(kind="private", path=path, line=line, text=phrase[0])


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"property", "cached_property", "classproperty"})


def _check_names(path: Path, tree: ast.Module) -> Iterator[Finding]:
    public = _find_public_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name="read" | "__new__") | ast.AsyncFunctionDef(name="read"):
                # As the name of a function, the first is a verb; the second is Python's own.
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                name = node.name
            case ast.arg():
                name = node.arg
            case ast.Name(ctx=ast.Store()):
                name = node.id
            case ast.Attribute(ctx=ast.Store()):
                name = node.attr
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                pass
            case _:
                continue
        if name.strip("_") in BARE and node not in public:
            yield Finding(kind="name", path=path, line=node.lineno, text=name)


def _find_public_names(tree: ast.Module) -> set[ast.AST]:
    """Return the nodes that define or set a name in PUBLIC."""
    public: set[ast.AST] = set()
    for owner in ast.walk(tree):
        if isinstance(owner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = {name.partition(".")[2] for name in PUBLIC if name.startswith(f"{owner.name}.")}
            public |= {node for node in ast.walk(owner) if names and _name_of(node) in names}
    return public


def _name_of(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name):
            return name
        case _:
            return None


def _check_comments(path: Path, source: str) -> Iterator[Finding]:
    previous = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text, line = token.string.lstrip("#: ").strip(), token.start[0]
            if text and line != previous + 1 and OPENINGS.match(text):
                yield Finding(kind="opening", path=path, line=line, text=text)
            if phrase := PRIVATE.search(text):
                yield Finding(kind="private", path=path, line=line, text=phrase[0])
            previous = line
        elif token.type == tokenize.STRING and '"""' not in token.string and (phrase := PRIVATE.search(token.string)):
            yield Finding(kind="private", path=path, line=token.start[0], text=phrase[0])


def _check_limits(path: Path, tree: ast.Module, lines: list[str]) -> Iterator[Finding]:
    """List the numeric limits without a comment that names a unit, whether in front, behind, or of their group."""
    explained = False
    end = 0
    for node in tree.body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if not isinstance(target, ast.Name) or not isinstance(node, ast.AnnAssign) or not _is_number(node.value):
            continue
        comment = "" if "#" not in lines[node.lineno - 1] else lines[node.lineno - 1].partition("#")[2]
        above = node.lineno - 2
        while above >= 0 and lines[above].startswith("#"):
            comment += lines[above]
            above -= 1
        explained = bool(comment and UNITS.search(comment)) or (not comment and explained and node.lineno == end + 1)
        end = node.end_lineno or node.lineno
        if LIMIT_NAME.fullmatch(target.id) and not explained:
            yield Finding(kind="limit", path=path, line=node.lineno, text=target.id)


def _is_number(value: ast.expr | None) -> bool:
    match value:
        case ast.Constant(value=int() | float()):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A paragraph, list item, heading or table cell of a page, without its markup."""

    line: int
    text: str

    def sentences(self) -> list[str]:
        """Split the text behind the ends of sentences."""
        return [sentence for sentence in re.split(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*A-Z`0-9])", self.text) if sentence]


def read_blocks(text: str) -> list[Block]:
    """Split a page into blocks; code, quoted code blocks and pictures are left out."""
    blocks: list[Block] = []
    lines: list[str] = []
    start = 1
    fenced = False

    def close() -> None:
        if lines:
            blocks.append(Block(line=start, text=_strip_markup(" ".join(lines))))
            lines.clear()

    for number, line in enumerate(text.splitlines(), 1):
        stripped = re.sub(r"^>\s?", "", line.strip())
        if stripped.startswith("```"):
            fenced = not fenced
            close()
        elif fenced:
            continue
        elif not stripped or stripped.startswith(("<!--", "|-")):
            close()
        elif stripped.startswith("|"):
            close()
            cells = re.split(r"(?<!\\)\|", stripped.strip("|"))
            blocks += [Block(line=number, text=_strip_markup(cell)) for cell in cells]
        else:
            marker = re.match(r"(#+|[-*+]|\d+\.)\s+", stripped)
            if marker:
                close()
            if not lines:
                start = number
            lines.append(stripped[marker.end() :] if marker else stripped)
            if marker and marker[1].startswith("#"):
                close()
    close()
    return blocks


def _strip_markup(text: str) -> str:
    """Keep the words of links, and one word `code` for each piece of code."""
    text = re.sub(r"(`+)(?:(?!\1).)+\1", "`code`", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return text.replace("**", "").strip()


def read_page(path: Path) -> list[Finding]:
    """List the findings of one page."""
    findings = []
    for block in read_blocks(path.read_text("utf-8")):
        for kind, text in _check_block(block):
            findings.append(Finding(kind=kind, path=path, line=block.line, text=text[:100]))
    return findings


def _check_block(block: Block) -> Iterator[tuple[str, str]]:
    """Yield the kind and text of each finding of a block."""
    sentences = block.sentences()
    if len(sentences) > PARAGRAPH_SENTENCES:
        yield "paragraph", f"{len(sentences)} sentences: {sentences[0]}"
    for sentence in sentences:
        if PAGE_OPENINGS.match(sentence.lstrip("(\"'*")) and not sentence.endswith("?"):
            yield "opening", sentence
        for rule in (PRIVATE, PAGE_PRIVATE):
            if phrase := rule.search(sentence):
                yield "private", f"{phrase[0]}: {sentence}"
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > SENTENCE_WORDS:
            yield "long", f"{len(words)} words: {sentence}"


def find_pages() -> list[Path]:
    """List the pages that people read; decisions are records of their time and stay as they were written."""
    pages: list[Path] = []
    for name in PAGES:
        path = ROOT / name
        pages += sorted(path.rglob("*.md")) if path.is_dir() else [path]
    return [page for page in pages if "adr" not in page.parts]


def read_requirements(path: Path) -> list[Finding]:
    """List the findings of the sentences in a table of requirements."""
    return [
        Finding(kind=kind, path=path, line=0, text=f"{requirement['id']}: {text}"[:120])
        for requirement in tomllib.loads(path.read_text("utf-8"))["requirement"]
        for name in ("text", "deferred")
        if name in requirement
        for kind, text in _check_block(Block(line=0, text=_strip_markup(requirement[name])))
    ]


def read_pages() -> list[Finding]:
    """List the findings of all pages and tables of requirements."""
    tables = sorted((ROOT / "tests" / "standards").rglob("requirements.toml"))
    return [
        *(finding for page in find_pages() for finding in read_page(page)),
        *(finding for table in tables for finding in read_requirements(table)),
    ]


def read_source(root: Path = SOURCE) -> list[Finding]:
    """List the findings of a file, or of every Python file below a folder."""
    return [
        finding for path in (sorted(root.rglob("*.py")) if root.is_dir() else [root]) for finding in read_file(path)
    ]


def read_path(path: Path) -> list[Finding]:
    """List the findings of a page or Python file, or of all below a folder."""
    if path.suffix == ".md":
        return read_page(path)
    if path.suffix == ".toml":
        return read_requirements(path)
    pages = sorted(page for page in path.rglob("*.md") if "adr" not in page.parts) if path.is_dir() else []
    return [*(finding for page in pages for finding in read_page(page)), *read_source(path)]


def count_findings() -> dict[str, dict[str, int]]:
    """Count the findings of each package and of the pages, by kind."""
    counts: dict[str, Counter[str]] = {}
    for finding in read_source():
        counts.setdefault(package_of(finding.path), Counter())[finding.kind] += 1
    counts["pages"] = Counter(finding.kind for finding in read_pages())
    return {
        package: {kind: number for kind in KINDS if (number := counts[package][kind])} for package in sorted(counts)
    }


def main() -> None:
    """List the findings below the paths given, or write down the counts."""
    if "--lower" in sys.argv:
        limits, counts = json.loads(COUNTS.read_text("utf-8")), count_findings()
        lower = {
            package: {kind: min(number, limits.get(package, {}).get(kind, 0)) for kind, number in kinds.items()}
            for package, kinds in counts.items()
        }
        COUNTS.write_text(json.dumps(lower, indent=1, sort_keys=True) + "\n", "utf-8")
        return
    roots = [Path(name).resolve() for name in sys.argv[1:]] or [SOURCE]
    findings = [finding for root in roots for finding in read_path(root)]
    for finding in findings:
        print(finding)
    print(*(f"{kind} {number}" for kind, number in Counter(finding.kind for finding in findings).items()), sep=", ")


if __name__ == "__main__":
    main()
