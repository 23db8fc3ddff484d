"""Habits in recorded runs, and what could be learned from them: drafts for a person to review, never more.

    the same tools in the same order       a workflow-chain pack
    the same correction again and again    a prompt template
    the same workflow at regular times     an automation
    all three around one workflow          an agent pack

What a run holds may be secret. Titles and rationales are made of counts, and of the names of tools and workflows where
those look like names. Arguments never leave here except for their names. The text of a correction is copied into an
artifact, because it is what is to be learned; only when it is made of plain words, and nothing in it looks like a
secret, an address or a number that identifies somebody. Runs of different owners are never looked at together.

The same runs give the same drafts in the same order, whatever order they come in. Artifacts hold no counts, so that
more runs of the same habit do not make another draft of it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from memoranda.consolidation.habits.repeats import repeats
from memoranda.consolidation.habits.twins import Known, duplicate_of, fingerprint
from memoranda.consolidation.text.note import Note, one_line, shorten
from memoranda.consolidation.text.reading import content_words, read_sentence
from memoranda.consolidation.text.similar import fold
from memoranda.consolidation.time.timetable import timetable
from memoranda.encoding.detection import detect

__all__ = ["Draft", "RunTrace", "Step", "Thresholds", "duplicate_of", "fingerprint", "synthesise"]

Kind = Literal["agent-pack", "workflow-chain-pack", "prompt-template", "automation"]

# Of one owner, the newest; older habits are over or show in the newer runs.
RUNS_LIMIT: Final = 1_000
# Of one kind and owner: more is more than a person reviews.
DRAFTS_LIMIT: Final = 10
CORRECTION_CHARS_LIMIT: Final = 200
_CORRECTIONS_A_RUN: Final = 20
_INSTRUCTIONS_LIMIT: Final = 10
_TOOLS_LIMIT: Final = 40
# A tool belongs to a purpose when so many of its runs use it.
_TOOL_SHARE: Final = 0.6
_TITLE_CHARS_LIMIT: Final = 120
_VERSION: Final = "1.0.0"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._:/ -]{0,62}[A-Za-z0-9]|[A-Za-z]", re.ASCII)
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}", re.ASCII)
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)
# How people begin to correct; what follows is what they want.
_OPENING = re.compile(
    r"^(?:(?:no|nope|nah|wrong|not like that|not that|stop|actually|again|please|hey|hmm|sorry|wait|i said|as i said"
    r"|i told you(?: to)?|that['’]s (?:wrong|not right)|once more|next time)\b[\s,.:;!–-]*)+",
    re.IGNORECASE,
)
# Spaces are read from where they begin, letters too: from every one of them, a long run would take its square.
_PLEASE = re.compile(r"(?:(?<![\s,])[\s,]++)?+\bplease\b[\s,]*(?=[.!]*$)|\bplease\s", re.IGNORECASE)
_PLAIN_WORD = re.compile(
    r"[\"'“”‘’(`]?[^\W_][\w./+#'’-]{0,31}[\"'“”‘’)`]?[.,;:!?…%+#]{0,3}|[-–—&+=]"
)
# Digits inside a longer word are more often a password than a word.
_MIXED_WORD = re.compile(r"(?<![^\W\d_])(?=[^\s]{8})[^\W\d_]++\d++[^\W\d_]")
_IDENTIFYING = re.compile(
    r"\d{5}|(?:\d[\s./-]?){7}|@|://|www\."
    r"|\b(?:passwords?|passwort|passphrase|secrets?|tokens?|api[ _-]?keys?|credentials?|pin|iban|ssn|login)\b",
    re.IGNORECASE,
)
_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a run called."""

    tool: str
    # The names of its arguments; never their values.
    arguments: tuple[str, ...] = ()
    ok: bool = True


class RunTrace(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run: one name is one run."""

    run_id: str
    workflow: str
    # When it began, in milliseconds since 1970.
    at: int
    steps: tuple[Step, ...] = ()
    # What people told it to do otherwise.
    corrections: tuple[str, ...] = ()
    owner: str = ""
    # A schedule started it: that it is regular is no news.
    scheduled: bool = False


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """Something that could be learned."""

    kind: Kind
    title: str
    rationale: str
    artifact: dict[str, Any]
    source_runs: tuple[str, ...]
    # The same for artifacts that do the same.
    fingerprint: str
    owner: str = ""
    # The known artifact that does nearly the same.
    duplicate_of: str | None = None


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """From when on something is a habit."""

    runs: int = 3
    chain_steps: int = 3


class _Correction(msgspec.Struct, frozen=True, kw_only=True):
    """The same correction in several runs."""

    text: str
    runs: tuple[str, ...]


def synthesise(
    runs: Iterable[RunTrace], *, known: Iterable[Known] = (), thresholds: Thresholds | None = None
) -> list[Draft]:
    """Drafts of what the runs suggest, each once; without those of which a known artifact does exactly the same."""
    limits = thresholds or Thresholds()
    existing = sorted(known, key=lambda one: one[:2])
    taken = {fingerprint(kind, artifact) for _, kind, artifact in existing}
    found: dict[tuple[str, str], Draft] = {}
    for owner, owned in sorted(_by_owner(runs).items()):
        for draft in _of_one_owner(owned, limits):
            if draft.fingerprint not in taken:
                twin = duplicate_of(draft.kind, draft.artifact, existing)
                found.setdefault(
                    (owner, draft.fingerprint), replace(draft, owner=owner, duplicate_of=twin)
                )
    return list(found.values())


def _by_owner(runs: Iterable[RunTrace]) -> dict[str, list[RunTrace]]:
    """The newest runs of each owner, oldest first; of several with one name the newest."""
    found: dict[str, dict[str, RunTrace]] = defaultdict(dict)
    for run in sorted(runs, key=lambda run: (run.at, run.run_id, repr(run))):
        found[run.owner][run.run_id] = run
    ordered = {
        owner: sorted(named.values(), key=lambda run: (run.at, run.run_id))
        for owner, named in found.items()
    }
    return {owner: owned[-RUNS_LIMIT:] for owner, owned in ordered.items()}


def _of_one_owner(runs: Sequence[RunTrace], limits: Thresholds) -> Iterable[Draft]:
    yield from _chains(runs, limits)
    yield from (_template(correction) for correction in _corrections(runs, limits)[:DRAFTS_LIMIT])
    workflows: dict[str, list[RunTrace]] = defaultdict(list)
    for run in runs:
        if is_name(run.workflow):
            workflows[run.workflow].append(run)
    agents = []
    for workflow, own in sorted(workflows.items()):
        regular = [run for run in own if not run.scheduled]
        cron = timetable((run.at for run in regular), least=limits.runs)
        if cron is not None:
            yield _automation(workflow, cron, regular)
            agents += _agent(workflow, cron, own, limits)
    yield from agents[:DRAFTS_LIMIT]


# --- repeated tool sequences ---------------------------------------------------------------------------------


def _chains(runs: Sequence[RunTrace], limits: Thresholds) -> Iterable[Draft]:
    tools = {run.run_id: [type_of(step.tool) for step in run.steps if step.ok] for run in runs}
    named = {run_id: [tool for tool in used if tool] for run_id, used in tools.items()}
    arguments = _arguments(runs, limits)
    for repeat in repeats(named, least=limits.runs, length=limits.chain_steps, limit=DRAFTS_LIMIT):
        artifact = _chain_pack(repeat.items, arguments)
        yield Draft(
            kind="workflow-chain-pack",
            title=shorten("Chain: " + " → ".join(repeat.items), _TITLE_CHARS_LIMIT),
            rationale=f"{len(repeat.lists)} runs used these {len(repeat.items)} tools in this order.",
            artifact=artifact,
            source_runs=repeat.lists,
            fingerprint=fingerprint("workflow-chain-pack", artifact),
        )


def _arguments(runs: Sequence[RunTrace], limits: Thresholds) -> dict[str, list[str]]:
    """The names of the arguments each tool is given, in most of the runs that call it."""
    calls: Counter[str] = Counter()
    given: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        names: dict[str, set[str]] = defaultdict(set)
        for step in run.steps:
            names[type_of(step.tool)].update(name for name in step.arguments if _is_argument(name))
        calls.update(names.keys())
        for tool, used in names.items():
            given[tool].update(used)
    return {
        tool: sorted(
            name
            for name, count in counts.items()
            if count >= limits.runs and 2 * count >= calls[tool]
        )
        for tool, counts in given.items()
    }


def _chain_pack(tools: Sequence[str], arguments: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = []
    for place, tool in enumerate(tools, 1):
        config = {"arguments": list(arguments[tool])[:_TOOLS_LIMIT]} if arguments.get(tool) else {}
        nodes.append({"id": f"step{place}", "typeId": tool, "config": config})
    edges = [{"from": f"step{place}", "to": f"step{place + 1}"} for place in range(1, len(tools))]
    name = f"local.learned.{_tail('chain', tools)}"
    chain = {
        "chainId": f"{name}.run",
        "version": _VERSION,
        "label": shorten(" → ".join(tools), _TITLE_CHARS_LIMIT),
        "description": f"{len(tools)} tools, one after the other.",
        "parameters": {"type": "object", "properties": {}},
        "dag": {"nodes": nodes, "edges": edges},
    }
    return {
        "name": name,
        "version": _VERSION,
        "kind": "workflow-chain",
        "engines": {"openwop": ">=1.0"},
        "chains": [chain],
    }


# --- repeated corrections ------------------------------------------------------------------------------------


def _corrections(runs: Sequence[RunTrace], limits: Thresholds) -> list[_Correction]:
    """What people had to say in several runs, the most frequent first."""
    told = [
        read_sentence(Note(name=run.run_id, text="", at=0), place, text)
        for run in runs
        for place, text in enumerate(_told(run))
    ]
    groups: dict[int, list[int]] = defaultdict(list)
    for place, root in enumerate(fold(told)):
        groups[root].append(place)
    found = []
    for places in groups.values():
        names = tuple(sorted({told[place].note.name for place in places}))
        if len(names) >= limits.runs:
            texts = Counter(told[place].text for place in places)
            found.append(
                _Correction(
                    text=min(texts, key=lambda text: (-texts[text], len(text), text)), runs=names
                )
            )
    return sorted(found, key=lambda one: (-len(one.runs), one.text))


def _told(run: RunTrace) -> list[str]:
    found = []
    for text in run.corrections[:_CORRECTIONS_A_RUN]:
        instruction = _instruction(text)
        if instruction is not None and instruction not in found:
            found.append(instruction)
    return found


def _instruction(text: str) -> str | None:
    """A correction as an instruction; None when it says too little, or could say too much."""
    line = one_line(text[: 4 * CORRECTION_CHARS_LIMIT])
    line = _PLEASE.sub("", _OPENING.sub("", line)).strip(" ,;:–-")
    if len(line) > CORRECTION_CHARS_LIMIT or len(content_words(line)) < 2 or not is_plain(line):
        return None
    return line[0].upper() + line[1:].rstrip(".! ") + "."


def is_plain(text: str) -> bool:
    """Whether a text is made of plain words, and nothing in it looks like a secret or identifies somebody."""
    words = text.split()
    is_made_of_words = all(map(_PLAIN_WORD.fullmatch, words)) and not any(
        map(_MIXED_WORD.search, words)
    )
    return is_made_of_words and not _IDENTIFYING.search(text) and not detect(text)


def _template(correction: _Correction) -> Draft:
    artifact = {
        "templateId": f"learned.{_tail('correction', [correction.text])}",
        "version": _VERSION,
        "kind": "system",
        "text": correction.text,
        "name": "Learned from corrections",
        "tags": ["learned"],
    }
    return Draft(
        kind="prompt-template",
        title="An instruction learned from corrections",
        rationale=f"The same correction was given in {len(correction.runs)} runs.",
        artifact=artifact,
        source_runs=correction.runs,
        fingerprint=fingerprint("prompt-template", artifact),
    )


# --- regular times and purposes ------------------------------------------------------------------------------


def _automation(workflow: str, cron: str, runs: Sequence[RunTrace]) -> Draft:
    artifact = {
        "workflowId": workflow,
        "schedule": {"cron": cron, "timezone": "UTC"},
        "name": shorten(f"{workflow} {_in_words(cron)}", _TITLE_CHARS_LIMIT),
    }
    return Draft(
        kind="automation",
        title=shorten(f"Run {workflow} {_in_words(cron)}", _TITLE_CHARS_LIMIT),
        rationale=f"{len(runs)} runs of {workflow} were started by hand, nearly all of them {_in_words(cron)}.",
        artifact=artifact,
        source_runs=tuple(sorted(run.run_id for run in runs)),
        fingerprint=fingerprint("automation", artifact),
    )


def _agent(workflow: str, cron: str, runs: Sequence[RunTrace], limits: Thresholds) -> list[Draft]:
    """An agent for a workflow that has its tools, its corrections and its times; none when one of them is missing."""
    using: Counter[str] = Counter()
    for run in runs:
        using.update({type_of(step.tool) for step in run.steps if step.ok} - {""})
    tools = sorted(
        tool for tool, count in using.items() if count >= max(limits.runs, _TOOL_SHARE * len(runs))
    )
    corrections = _corrections(runs, limits)[:_INSTRUCTIONS_LIMIT]
    if len(tools) < 2 or not corrections:
        return []
    name = f"local.learned.{_tail('agent', [workflow])}"
    instructions = sorted(correction.text for correction in corrections)
    agent = {
        "agentId": f"{name}.worker",
        "persona": shorten(f"Runs {workflow}", _TITLE_CHARS_LIMIT),
        "modelClass": "general",
        "systemPrompt": "\n".join(
            [f"You run the workflow {workflow}.", *(f"- {text}" for text in instructions)]
        ),
        "toolAllowlist": tools[:_TOOLS_LIMIT],
        "memoryShape": {"longTerm": True},
        "label": shorten(workflow, _TITLE_CHARS_LIMIT),
        "description": f"Usually started {_in_words(cron)}.",
    }
    artifact = {"name": name, "version": _VERSION, "agents": [agent]}
    return [
        Draft(
            kind="agent-pack",
            title=shorten(f"An agent for {workflow}", _TITLE_CHARS_LIMIT),
            rationale=(
                f"{len(runs)} runs of {workflow} share {len(tools)} tools, {len(instructions)} repeated "
                f"{'correction' if len(instructions) == 1 else 'corrections'} and a regular time."
            ),
            artifact=artifact,
            source_runs=tuple(sorted(run.run_id for run in runs)),
            fingerprint=fingerprint("agent-pack", artifact),
        )
    ]


def _in_words(cron: str) -> str:
    minute, hour, day, _, weekdays = cron.split()
    if hour == "*":
        return f"every hour at minute {minute}"
    time = f"at {int(hour):02d}:{int(minute):02d} UTC"
    if day != "*":
        return f"on day {day} of every month {time}"
    if weekdays == "1-5":
        return f"on working days {time}"
    if weekdays == "*":
        return f"every day {time}"
    names = [_WEEKDAYS[int(weekday) % 7] for weekday in weekdays.split(",")]
    return f"every {' and '.join(names)} {time}"


# --- names ---------------------------------------------------------------------------------------------------


def is_name(text: str) -> bool:
    """Whether a text looks like the name of a tool or a workflow, and like nothing else."""
    return _NAME.fullmatch(text) is not None and not detect(text)


def type_of(tool: str) -> str:
    """A tool's name as a node type: `[a-z][a-zA-Z0-9._-]*`; empty when it is no name."""
    if not is_name(tool):
        return ""
    parts = [
        part
        for part in (_NOT_IN_IDS.sub("-", part).strip("-") for part in re.split(r"[.:/ ]+", tool))
        if part
    ]
    return parts[0][0].lower() + ".".join(parts)[1:]


def _is_argument(name: str) -> bool:
    return _ARGUMENT.fullmatch(name) is not None and not detect(name)


def _tail(what: str, parts: Sequence[str]) -> str:
    """A name that stays the same for the same parts, and can be read aloud."""
    return f"{what}-{fingerprint(what, {'parts': list(parts)})[:10]}"
