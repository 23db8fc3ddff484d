"""What is read without the parser is read as the parser would: both know the same declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.cli.catalogue import SECTIONS, Entry
from memoranda.cli.command_line import command_of
from memoranda.cli.commands import App, Function, WrongUsage
from memoranda.cli.parser import command_line, parsed_call
from memoranda.cli.run import Run
from memoranda.cli.usual import MARK, usual_call

RUN = Run(owner="did:example:ada")
KNOWN = ("shop", "a b", "set", "list", "7", "~/x", "semantic", "bash", f"{MARK}- milk", f"{MARK}-")
ODD = (
    "",
    "0",
    "007",
    "1_000",
    "1.5",
    "1e3",
    "0x1f",
    f"{MARK}-3",
    "yes",
    "mg",
    "SEMANTIC",
    "--",
    "-k",
    "private",
    "oms",
)
_LETTERS = st.characters(codec="utf-8", exclude_characters="\0-")
TEXTS = st.sampled_from(KNOWN) | st.text(_LETTERS, min_size=1, max_size=5)
VALUES = TEXTS | st.sampled_from(ODD)


def below(entry: Entry) -> Iterator[tuple[tuple[str, ...], Function]]:
    """Every command of an entry, with the words that name it."""
    command = command_of(entry)
    if not isinstance(command, App):
        yield (entry.name,), command
        return
    yield from (((entry.name, name), each.function) for name, each in command.commands.items())
    if command.otherwise is not None:
        yield (entry.name,), command.otherwise


ENTRIES = {entry.name: entry for section in SECTIONS for entry in section.entries}
COMMANDS = {" ".join(words): function for entry in ENTRIES.values() for words, function in below(entry)}


def options(name: str) -> list[str]:
    """The options of a command, and two that it has not."""
    app = command_line()
    for word in name.split():
        app = app[word]
    arguments = app.assemble_argument_collection()
    return [*(name for each in arguments for name in each.names if name.startswith("-")), "--limt", "--for_prompt"]


def asked(call: Callable[[], object]) -> tuple[Function, dict[str, Any]]:
    """What a call would do."""
    function, args, keywords = call.func, call.args, call.keywords  # type: ignore[attr-defined]
    bound = signature(function).bind(*args, **keywords)
    bound.apply_defaults()
    return function, bound.arguments


def by_parser(name: str, words: Sequence[str]) -> tuple[Function, dict[str, Any]]:
    return asked(parsed_call([*name.split(), *words], RUN, ENTRIES[name.split()[0]]))


@settings(max_examples=400)
@given(name=st.sampled_from(sorted(COMMANDS)), data=st.data())
def test_what_is_read_without_the_parser_is_what_the_parser_reads(name: str, data: st.DataObject) -> None:
    option = st.sampled_from(options(name))
    one = st.one_of(
        TEXTS.map(lambda text: [text]),
        option.map(lambda name: [name]),
        st.tuples(option, VALUES).map(list),
        st.tuples(option, VALUES).map(lambda pair: ["=".join(pair)]),
    )
    words = [word for part in data.draw(st.lists(one, max_size=5)) for word in part]
    function = COMMANDS[name]
    if words and " ".join((name, words[0])) in COMMANDS:
        # It names another command.
        return
    call = usual_call(function, words, RUN)
    if call is not None:
        assert asked(call) == by_parser(name, words)


@pytest.mark.parametrize(
    "line",
    [
        ["remember", "use pnpm", "--project", "shop", "--tag", "a", "--tag=b", "--salience", "0.5", "--no-export"],
        ["recall", "pnpm", "--words", "--limit", "3", "--kind", "semantic", "--for-prompt"],
        ["get", "urn:ump:aa"],
        ["list", "--limit", "3"],
        ["export", "all.ndjson", "--no-history"],
        ["import", "one.ndjson", "two.ndjson"],
        ["oams recall", "tea", "-k", "3"],
        ["oms find", "--text", "tea", "--namespace", "shop"],
        ["openwop put", "mem://a", f"{MARK}- milk"],
        ["cal", "RECALL beliefs", "--param", "who=ada"],
        ["hook", "session-start", "--host", "claude-code"],
        ["config set", "port", "9000"],
        ["connect", "claude-code", "cursor", "--dry-run"],
        ["models add", "--", "arctic-embed-s"],
        ["mcp"],
    ],
    ids=lambda line: line[0],
)
def test_usual_lines_are_read_without_it(line: list[str]) -> None:
    call = usual_call(COMMANDS[line[0]], line[1:], RUN)
    assert call is not None
    assert asked(call) == by_parser(line[0], line[1:])


@pytest.mark.parametrize(
    "line",
    [
        ["get"],
        ["get", "a", "b"],
        ["recall", "x", "--limit", "many"],
        ["remember", "--kind", "odd"],
        ["list", "--limt=3"],
    ],
)
def test_what_is_wrong_is_left_to_the_parser_to_say(line: list[str]) -> None:
    assert usual_call(COMMANDS[line[0]], line[1:], RUN) is None
    with pytest.raises(WrongUsage):
        parsed_call(line, RUN, ENTRIES[line[0]])


def test_a_path_is_a_path(tmp_path: Path) -> None:
    call = usual_call(COMMANDS["models add"], ["--from", str(tmp_path)], RUN)
    assert call is not None
    assert asked(call)[1] == by_parser("models add", ["--from", str(tmp_path)])[1]
