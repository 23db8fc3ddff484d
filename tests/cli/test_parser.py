"""The parser: what a command line says, for every command, and how it says what is wrong."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Command

from memoranda.cli.catalogue import SECTIONS, CommandEntry
from memoranda.cli.command_line import load_command
from memoranda.cli.completion import script_for
from memoranda.cli.parser import Key, ParameterSlot, parse_call, read_slots
from memoranda.cli.run import Function, GlobalOptions, WrongUsage

RUN = GlobalOptions(owner="did:example:ada")
# Texts that begin with a hyphen and are no option, and others that are often mistaken.
TEXTS = st.sampled_from(["shop", "a b", "- milk", "-", "-3", "--- three", "é", "a=b", "", "'"]) | st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), max_size=6
).filter(lambda text: not text.startswith("-"))


def commands_of(entry: CommandEntry) -> Iterator[tuple[str, Function]]:
    yield from ((f"{entry.name} {below.name}", load_command(below)) for below in entry.below.values())
    if entry.target:
        yield entry.name, load_command(entry)


COMMANDS = {
    name: function for section in SECTIONS for entry in section.entries for name, function in commands_of(entry)
}


def values_of(slot: ParameterSlot) -> st.SearchStrategy[tuple[object, str]]:
    """Values of a slot, each with its spelling."""
    if slot.choices:
        return st.sampled_from(slot.choices).map(lambda choice: (choice, choice))
    least, most = slot.minimum or 0, 10**9 if slot.maximum is None else slot.maximum
    if slot.kind is int:
        return st.integers(int(least), int(most)).map(lambda number: (number, str(number)))
    if slot.kind is float:
        return st.decimals(least, most, places=3).map(lambda number: (float(number), str(number)))
    if slot.kind is Path:
        return TEXTS.filter(bool).map(lambda text: (Path(text), text))
    return TEXTS.map(lambda text: (text, text))


def bound(call: Callable[[], object]) -> dict[str, Any]:
    arguments = signature(call.func).bind(*call.args, **call.keywords)  # type: ignore[attr-defined]
    arguments.apply_defaults()
    return arguments.arguments


def value_at(arguments: dict[str, Any], key: Key) -> Any:
    name, field = key
    return arguments[name] if field is None else getattr(arguments[name], field)


@given(name=st.sampled_from(sorted(COMMANDS)), data=st.data())
def test_what_is_written_is_what_the_command_gets(name: str, data: st.DataObject) -> None:
    function = COMMANDS[name]
    options: list[str] = []
    arguments: list[str] = []
    expected: dict[Key, object] = {}
    is_gap = False
    for slot in read_slots(function):
        is_argument = slot.is_positional and not is_gap and (not slot.options or data.draw(st.booleans()))
        if not slot.is_required and data.draw(st.booleans()):
            # What is left out in the middle would move the arguments behind it.
            is_gap |= slot.is_positional
            continue
        if slot.is_flag:
            is_negative = bool(slot.negative) and data.draw(st.booleans())
            options.append(slot.negative if is_negative else slot.options[0])
            expected[slot.key] = not is_negative
            continue
        if slot.is_positional and not is_argument and not slot.options:
            continue
        pairs = data.draw(st.lists(values_of(slot), min_size=1, max_size=3 if slot.is_repeatable else 1))
        for _, text in pairs:
            if is_argument:
                arguments.append(text)
            else:
                option = data.draw(st.sampled_from(slot.options))
                options.extend([f"{option}={text}"] if data.draw(st.booleans()) else [option, text])
        is_gap |= slot.is_positional and not is_argument
        expected[slot.key] = tuple(value for value, _ in pairs) if slot.is_repeatable else pairs[0][0]
    tokens = [*options, "--", *arguments] if data.draw(st.booleans()) else [*arguments, *options]
    found = bound(parse_call(function, tokens, RUN))
    given_values = {}
    for key, value in expected.items():
        declared = signature(function).parameters[key[0]]
        is_rest = declared.kind is declared.VAR_POSITIONAL
        given_values[key] = (value_at(found, key), value) if not is_rest else (tuple(found[key[0]]), value)
    assert all(one == other for one, other in given_values.values()), given_values


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_declared_so_that_its_help_is_complete(name: str) -> None:
    slots = read_slots(COMMANDS[name])
    assert [slot.label for slot in slots if not slot.help] == []
    names = [option for slot in slots for option in (*slot.options, slot.negative) if option]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["get"], "The argument ID is missing."),
        (["get", "a", "b"], "There is no argument for 'b'."),
        (["recall", "x", "--limit", "many"], "--limit must be a whole number, not 'many'."),
        (["recall", "x", "--limit"], "--limit needs a value."),
        (["recall", "x", "--limit", "--words"], "--limit needs a value."),
        (["recall", "x", "--limit", "3", "--limit", "4"], "--limit is given twice."),
        (["recall", "x", "--words=yes"], "--words takes no value."),
        (["remember", "x", "--kind", "odd"], "--kind must be one of semantic,"),
        (["remember", "x", "--salience", "high"], "--salience must be a number, not 'high'."),
        (["remember", "x", "--salience", "nan"], "--salience must be a number, not 'nan'."),
        (["list", "--limt=3"], 'Unknown option: --limt. Did you mean "--limit"?'),
    ],
)
def test_what_is_wrong_is_said_by_the_names_that_were_typed(line: list[str], message: str) -> None:
    with pytest.raises(WrongUsage) as raised:
        parse_call(COMMANDS[line[0]], line[1:], RUN)
    assert str(raised.value).startswith(message)


def test_help_fits_the_terminal_and_stands_before_anything_else(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for tokens in (("recall", "--help"), ("recall", "x", "--limit", "many", "-h"), ("key", "add", "--help"), ("oms",)):
        ran = run(*tokens)
        assert (ran.code, ran.out.partition(" ")[0]) == (0, "Usage:")
        assert max(map(len, ran.out.splitlines())) <= 60


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["reca"], ["recall"]),
        (["oms", "discl"], ["disclose"]),
        (["recall", "--for"], ["--for-prompt"]),
        (["remember", "--kind", "pro"], ["procedural"]),
        (["--data", "x", "key", "a"], ["add"]),
    ],
)
def test_bash_completes_commands_options_and_values(words: list[str], completed: list[str]) -> None:
    bash = shutil.which("bash")
    assert bash is not None, "bash is on every machine that this project is tested on"
    listed = " ".join(f"'{word}'" for word in ("memoranda", *words))
    script = (
        f"{script_for('bash')}\nCOMP_WORDS=({listed}); COMP_CWORD={len(words)}; _memoranda; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True)
    # `complete` only registers the function, for which a shell without completion has no use.
    assert ran.stdout.split() == completed
