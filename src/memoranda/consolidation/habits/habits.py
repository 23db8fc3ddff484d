"""Habits in recorded runs, and drafts of artifacts that could be learned from them, for a person to review.

    the same tools in the same order       a workflow-chain pack
    the same correction again and again    a prompt template
    the same workflow at regular times     an automation
    all three in one workflow              an agent pack

Runs may contain secrets. Titles and rationales are built only from counts and from the names of tools and workflows, if
these look like names. Of the arguments of a tool only the names are used. The text of a correction is copied into an
artifact only if it consists of plain words, without anything like a secret, an address or an identifying number. Runs
of different owners are never combined.

The time of an automation is fitted to the instants of the runs (`fit_timetable`): every hour, every day, working days,
days of the week or of the month, in UTC. The time of day is the middle of the 40-minute window with most instants. A
timetable fits if at least 80 % of the instants match it, and at least 80 % of its times between the first and the last
instant occurred.

Equal runs give equal drafts, whatever their order. Artifacts contain no counts, so that more runs of a known habit make
no new draft.

Order of work: runs are grouped by owner; sequences of tools, corrections and times are found for each workflow; drafts
are made, compared with what is known (`duplicates.py`), and limited to DRAFTS_LIMIT. Nothing is installed: a draft
becomes a proposal that a person reads.

When you change what goes into an artifact, ask first if it could carry a secret. Texts pass `is_plain_text`, names
`is_tool_name`; there is no other way in.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from memoranda.consolidation.habits.duplicates import KnownArtifact, find_duplicate, fingerprint
from memoranda.consolidation.habits.sequences import find_repeats
from memoranda.consolidation.text.corpus import content_words, read_sentence
from memoranda.consolidation.text.note import MemoryNote, shorten, to_one_line
from memoranda.consolidation.text.similar import fold_duplicates
from memoranda.encoding.detection import detect
from memoranda.model.calendar import days_after
from memoranda.model.instant import DAY_MS, EARLIEST, LATEST
from memoranda.time_words.vocabulary import WEEKDAY_NAMES

__all__ = [
    "HabitDraft",
    "RunTrace",
    "Thresholds",
    "ToolCall",
    "draft_habits",
    "find_duplicate",
    "fingerprint",
]

Kind = Literal["agent-pack", "workflow-chain-pack", "prompt-template", "automation"]

# Runs of one owner, the newest; older habits have ended or appear in the newer runs.
RUNS_LIMIT: Final = 1_000
# Drafts of one kind and owner; a person does not review more.
DRAFTS_LIMIT: Final = 10
# Characters of a correction; a longer one is not an instruction.
CORRECTION_CHARS_LIMIT: Final = 200
_CORRECTIONS_A_RUN: Final = 20
_INSTRUCTIONS_LIMIT: Final = 10
_TOOLS_LIMIT: Final = 40
# Share of the runs of a workflow that must use a tool, for an agent to get the tool.
_TOOL_SHARE: Final = 0.6
_TITLE_CHARS_LIMIT: Final = 120
_VERSION: Final = "1.0.0"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._:/ -]{0,62}[A-Za-z0-9]|[A-Za-z]", re.ASCII)
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}", re.ASCII)
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)
# Phrases before a correction; the instruction follows them.
_OPENING = re.compile(
    r"^(?:(?:no|nope|nah|wrong|not like that|not that|stop|actually|again|please|hey|hmm|sorry|wait|i said|as i said"
    r"|i told you(?: to)?|that['’]s (?:wrong|not right)|once more|next time)\b[\s,.:;!–-]*)+",
    re.IGNORECASE,
)
# Matches only at the first of several spaces or letters; otherwise a long run would take quadratic time.
_PLEASE = re.compile(r"(?:(?<![\s,])[\s,]++)?+\bplease\b[\s,]*(?=[.!]*$)|\bplease\s", re.IGNORECASE)
_PLAIN_WORD = re.compile(
    r"[\"'“”‘’(`]?[^\W_][\w./+#'’-]{0,31}[\"'“”‘’)`]?[.,;:!?…%+#]{0,3}|[-–—&+=]"
)
# Digits inside a longer word are more likely a password.
_MIXED_WORD = re.compile(r"(?<![^\W\d_])(?=[^\s]{8})[^\W\d_]++\d++[^\W\d_]")
_IDENTIFYING = re.compile(
    r"\d{5}|(?:\d[\s./-]?){7}|@|://|www\."
    r"|\b(?:passwords?|passwort|passphrase|secrets?|tokens?|api[ _-]?keys?|credentials?|pin|iban|ssn|login)\b",
    re.IGNORECASE,
)


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool in a run."""

    tool: str
    # The names of its arguments; never their values.
    arguments: tuple[str, ...] = ()
    ok: bool = True


class RunTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run, identified by its id."""

    run_id: str
    workflow: str
    # The start, in milliseconds since 1970.
    at: int
    steps: tuple[ToolCall, ...] = ()
    # Texts with which people corrected the run.
    corrections: tuple[str, ...] = ()
    owner: str = ""
    # True if a schedule started the run, so that its regular time is no habit.
    scheduled: bool = False


class HabitDraft(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact that could be learned from runs."""

    kind: Kind
    title: str
    rationale: str
    artifact: dict[str, Any]
    source_runs: tuple[str, ...]
    # Equal for artifacts with the same behaviour.
    fingerprint: str
    owner: str = ""
    # The id of a known artifact with nearly the same behaviour.
    duplicate_of: str | None = None


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The least numbers of runs, and of steps of a chain, that make a habit."""

    runs: int = 3
    chain_steps: int = 3


class _Correction(msgspec.Struct, frozen=True, kw_only=True):
    """A correction that was given in several runs."""

    text: str
    runs: tuple[str, ...]


def draft_habits(
    runs: Iterable[RunTrace],
    *,
    known_artifacts: Iterable[KnownArtifact] = (),
    thresholds: Thresholds | None = None,
) -> list[HabitDraft]:
    """Return the drafts that the runs suggest, without duplicates of each other and of the known artifacts.

    `known_artifacts` are those installed or proposed, in any form; a draft that equals one of them is not made again.
    """
    limits = thresholds or Thresholds()
    existing = sorted(known_artifacts, key=lambda one: one[:2])
    known_fingerprints = {fingerprint(kind, artifact) for _, kind, artifact in existing}
    drafts: dict[tuple[str, str], HabitDraft] = {}
    for owner, owned in sorted(_group_by_owner(runs).items()):
        for draft in _draft_for_owner(owned, limits):
            if draft.fingerprint not in known_fingerprints:
                duplicate = find_duplicate(draft.kind, draft.artifact, existing)
                drafts.setdefault(
                    (owner, draft.fingerprint), replace(draft, owner=owner, duplicate_of=duplicate)
                )
    return list(drafts.values())


def _group_by_owner(runs: Iterable[RunTrace]) -> dict[str, list[RunTrace]]:
    """Return the newest runs of each owner, oldest first; of several with one id only the newest."""
    runs_by_owner: dict[str, dict[str, RunTrace]] = defaultdict(dict)
    for run in sorted(runs, key=lambda run: (run.at, run.run_id, repr(run))):
        runs_by_owner[run.owner][run.run_id] = run
    ordered_traces = {
        owner: sorted(runs_by_id.values(), key=lambda run: (run.at, run.run_id))
        for owner, runs_by_id in runs_by_owner.items()
    }
    return {owner: owned[-RUNS_LIMIT:] for owner, owned in ordered_traces.items()}


def _draft_for_owner(runs: Sequence[RunTrace], limits: Thresholds) -> Iterable[HabitDraft]:
    """Yield the drafts from the runs of one owner."""
    yield from _draft_chains(runs, limits)
    yield from (
        _draft_template(correction) for correction in _find_corrections(runs, limits)[:DRAFTS_LIMIT]
    )
    workflows: dict[str, list[RunTrace]] = defaultdict(list)
    for run in runs:
        if is_tool_name(run.workflow):
            workflows[run.workflow].append(run)
    agents = []
    for workflow, own_traces in sorted(workflows.items()):
        regular = [run for run in own_traces if not run.scheduled]
        cron = fit_timetable((run.at for run in regular), least=limits.runs)
        if cron is not None:
            yield _draft_automation(workflow, cron, regular)
            agents += _draft_agents(workflow, cron, own_traces, limits)
    yield from agents[:DRAFTS_LIMIT]


# --- repeated tool sequences ---------------------------------------------------------------------------------


def _draft_chains(runs: Sequence[RunTrace], limits: Thresholds) -> Iterable[HabitDraft]:
    """Yield a draft for each repeated sequence of tools."""
    tools = {run.run_id: [node_type(step.tool) for step in run.steps if step.ok] for run in runs}
    tool_lists = {
        run_id: [tool for tool in run_tools if tool] for run_id, run_tools in tools.items()
    }
    arguments = _common_arguments(runs, limits)
    for repeat in find_repeats(
        tool_lists, least=limits.runs, length=limits.chain_steps, limit=DRAFTS_LIMIT
    ):
        artifact = _make_chain_pack(repeat.items, arguments)
        yield HabitDraft(
            kind="workflow-chain-pack",
            title=shorten("Chain: " + " → ".join(repeat.items), _TITLE_CHARS_LIMIT),
            rationale=f"{len(repeat.lists)} runs used these {len(repeat.items)} tools in this order.",
            artifact=artifact,
            source_runs=repeat.lists,
            fingerprint=fingerprint("workflow-chain-pack", artifact),
        )


def _common_arguments(runs: Sequence[RunTrace], limits: Thresholds) -> dict[str, list[str]]:
    """Return for each tool the names of the arguments that most runs with this tool pass."""
    calls: Counter[str] = Counter()
    counts_by_tool: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        names: dict[str, set[str]] = defaultdict(set)
        for step in run.steps:
            names[node_type(step.tool)].update(
                name for name in step.arguments if _is_argument_name(name)
            )
        calls.update(names.keys())
        for tool, run_tools in names.items():
            counts_by_tool[tool].update(run_tools)
    return {
        tool: sorted(
            name
            for name, count in counts.items()
            if count >= limits.runs and 2 * count >= calls[tool]
        )
        for tool, counts in counts_by_tool.items()
    }


def _make_chain_pack(
    tools: Sequence[str], arguments: Mapping[str, Sequence[str]]
) -> dict[str, object]:
    """Return the artifact of a chain of tools."""
    nodes: list[dict[str, object]] = []
    for number, tool in enumerate(tools, 1):
        config = {"arguments": list(arguments[tool])[:_TOOLS_LIMIT]} if arguments.get(tool) else {}
        nodes.append({"id": f"step{number}", "typeId": tool, "config": config})
    edges = [
        {"from": f"step{number}", "to": f"step{number + 1}"} for number in range(1, len(tools))
    ]
    name = f"local.learned.{_make_name_suffix('chain', tools)}"
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


def _find_corrections(runs: Sequence[RunTrace], limits: Thresholds) -> list[_Correction]:
    """Return the corrections given in several runs, the most frequent first."""
    sentences = [
        read_sentence(MemoryNote(name=run.run_id, text="", at=0), index, text)
        for run in runs
        for index, text in enumerate(_read_instructions(run))
    ]
    groups: dict[int, list[int]] = defaultdict(list)
    for index, root in enumerate(fold_duplicates(sentences)):
        groups[root].append(index)
    corrections = []
    for indices in groups.values():
        names = tuple(sorted({sentences[index].note.name for index in indices}))
        if len(names) >= limits.runs:
            texts = Counter(sentences[index].text for index in indices)
            corrections.append(
                _Correction(
                    text=min(texts, key=lambda text: (-texts[text], len(text), text)), runs=names
                )
            )
    return sorted(corrections, key=lambda correction: (-len(correction.runs), correction.text))


def _read_instructions(run: RunTrace) -> list[str]:
    instructions = []
    for text in run.corrections[:_CORRECTIONS_A_RUN]:
        instruction = _parse_instruction(text)
        if instruction is not None and instruction not in instructions:
            instructions.append(instruction)
    return instructions


def _parse_instruction(text: str) -> str | None:
    """Return a correction as an instruction; None if it is too short, too long or may contain a secret."""
    line = to_one_line(text[: 4 * CORRECTION_CHARS_LIMIT])
    line = _PLEASE.sub("", _OPENING.sub("", line)).strip(" ,;:–-")
    if (
        len(line) > CORRECTION_CHARS_LIMIT
        or len(content_words(line)) < 2
        or not is_plain_text(line)
    ):
        return None
    return line[0].upper() + line[1:].rstrip(".! ") + "."


def is_plain_text(text: str) -> bool:
    """Return True if a text consists of plain words, without anything like a secret or an identifying number.

    Strict on purpose: a useful correction may be refused, a password must not pass.
    """
    words = text.split()
    is_made_of_words = all(map(_PLAIN_WORD.fullmatch, words)) and not any(
        map(_MIXED_WORD.search, words)
    )
    return is_made_of_words and not _IDENTIFYING.search(text) and not detect(text)


def _draft_template(correction: _Correction) -> HabitDraft:
    """Return the draft of a prompt template for a correction."""
    artifact = {
        "templateId": f"learned.{_make_name_suffix('correction', [correction.text])}",
        "version": _VERSION,
        "kind": "system",
        "text": correction.text,
        "name": "Learned from corrections",
        "tags": ["learned"],
    }
    return HabitDraft(
        kind="prompt-template",
        title="An instruction learned from corrections",
        rationale=f"The same correction was given in {len(correction.runs)} runs.",
        artifact=artifact,
        source_runs=correction.runs,
        fingerprint=fingerprint("prompt-template", artifact),
    )


# --- regular times and purposes ------------------------------------------------------------------------------


def _draft_automation(workflow: str, cron: str, runs: Sequence[RunTrace]) -> HabitDraft:
    """Return the draft of an automation for a workflow with regular times."""
    artifact = {
        "workflowId": workflow,
        "schedule": {"cron": cron, "timezone": "UTC"},
        "name": shorten(f"{workflow} {_describe_cron(cron)}", _TITLE_CHARS_LIMIT),
    }
    return HabitDraft(
        kind="automation",
        title=shorten(f"Run {workflow} {_describe_cron(cron)}", _TITLE_CHARS_LIMIT),
        rationale=f"{len(runs)} runs of {workflow} were started by hand, nearly all of them {_describe_cron(cron)}.",
        artifact=artifact,
        source_runs=tuple(sorted(run.run_id for run in runs)),
        fingerprint=fingerprint("automation", artifact),
    )


def _draft_agents(
    workflow: str, cron: str, runs: Sequence[RunTrace], limits: Thresholds
) -> list[HabitDraft]:
    """Return an agent for a workflow with repeated tools and corrections; an empty list if either is missing."""
    using: Counter[str] = Counter()
    for run in runs:
        using.update({node_type(step.tool) for step in run.steps if step.ok} - {""})
    tools = sorted(
        tool for tool, count in using.items() if count >= max(limits.runs, _TOOL_SHARE * len(runs))
    )
    corrections = _find_corrections(runs, limits)[:_INSTRUCTIONS_LIMIT]
    if len(tools) < 2 or not corrections:
        return []
    name = f"local.learned.{_make_name_suffix('agent', [workflow])}"
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
        "description": f"Usually started {_describe_cron(cron)}.",
    }
    artifact = {"name": name, "version": _VERSION, "agents": [agent]}
    return [
        HabitDraft(
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


def _describe_cron(cron: str) -> str:
    """Return a cron expression of `fit_timetable` in words."""
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
    names = [WEEKDAY_NAMES[int(weekday) - 1] for weekday in weekdays.split(",")]
    return f"every {' and '.join(names)} {time}"


# --- names ---------------------------------------------------------------------------------------------------


def is_tool_name(text: str) -> bool:
    """Return True if a text looks like the name of a tool or a workflow, and not like a secret."""
    return _NAME.fullmatch(text) is not None and not detect(text)


def node_type(tool: str) -> str:
    """Return the name of a tool as a node type, `[a-z][a-zA-Z0-9._-]*`; empty if it is no name."""
    if not is_tool_name(tool):
        return ""
    parts = [
        part
        for part in (_NOT_IN_IDS.sub("-", part).strip("-") for part in re.split(r"[.:/ ]+", tool))
        if part
    ]
    return parts[0][0].lower() + ".".join(parts)[1:]


def _is_argument_name(name: str) -> bool:
    return _ARGUMENT.fullmatch(name) is not None and not detect(name)


def _make_name_suffix(prefix: str, parts: Sequence[str]) -> str:
    """Return a short name that is equal for equal parts."""
    return f"{prefix}-{fingerprint(prefix, {'parts': list(parts)})[:10]}"


# --- timetables ---------------------------------------------------------------------------------------

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_DAY_MINUTES: Final = 24 * 60
# Width of the window, in minutes, in which instants count as one time of day (or one minute of the hour).
WINDOW_MINUTES: Final = 40
_HOUR_WINDOW_MINUTES: Final = 10
# Share of the instants that must match the timetable, and share of its times that must have occurred.
_MATCH_SHARE: Final = 0.8
# Fewest days of a daily, and hours of an hourly timetable; fewer are only a busy week or day.
_LEAST_DAYS: Final = 5
_LEAST_HOURS: Final = 8
_WORKING_DAYS: Final = frozenset(range(5))
# Most days of the week in a timetable; more would be nearly daily.
_WEEKDAYS_LIMIT: Final = 3
# The last day that every month has.
_LAST_COMMON_DAY: Final = 28
_EPOCH: Final = date(1970, 1, 1)


def fit_timetable(instants: Iterable[int], *, least: int) -> str | None:
    """Return the cron expression that at least `least` instants match; None if there is none.

    `instants` in milliseconds since 1970. A few missed or extra runs do not matter; a rhythm that does not hold for 80
    % is none.
    """
    valid = sorted({at for at in instants if EARLIEST <= at <= LATEST})
    if len(valid) < least:
        return None
    return _fit_hourly(valid) or _fit_daily_time(valid, least)


def _fit_hourly(instants: Sequence[int]) -> str | None:
    """Return a cron expression for one minute of every hour; None if it does not fit."""
    minute, count = _find_busiest_window(
        [at // _MINUTE_MS % 60 for at in instants], 60, _HOUR_WINDOW_MINUTES
    )
    hours = sorted({(at - minute * _MINUTE_MS + _HOUR_MS // 2) // _HOUR_MS for at in instants})
    if len(hours) < _LEAST_HOURS or count < _MATCH_SHARE * len(instants):
        return None
    return f"{minute} * * * *" if len(hours) >= _MATCH_SHARE * (hours[-1] - hours[0] + 1) else None


def _fit_daily_time(instants: Sequence[int], least: int) -> str | None:
    """Return a cron expression for one time of day and a rule for days; None if none fits."""
    minute, _ = _find_busiest_window(
        [at // _MINUTE_MS % _DAY_MINUTES for at in instants], _DAY_MINUTES, WINDOW_MINUTES
    )
    days: list[date] = []
    for at in instants:
        # The day with the nearest such time; an instant just before midnight may belong to the next day.
        number, remainder = divmod(at - minute * _MINUTE_MS + DAY_MS // 2, DAY_MS)
        if abs(remainder - DAY_MS // 2) <= WINDOW_MINUTES * _MINUTE_MS // 2:
            days.append(days_after(_EPOCH, number))
    if len(days) < _MATCH_SHARE * len(instants):
        return None
    distinct_days = sorted(set(days))
    fields = (
        _fit_days(distinct_days)
        or _fit_weekdays(distinct_days, least)
        or _fit_month_day(distinct_days, least)
    )
    return None if fields is None else f"{minute % 60} {minute // 60} {fields}"


def _fit_days(days: Sequence[date]) -> str | None:
    """Return the day fields for every day or working days; None if neither fits."""
    if len(days) < _LEAST_DAYS:
        return None
    span = _days_between(days)
    working = [day for day in span if day.weekday() in _WORKING_DAYS]
    working_days_with_run = [day for day in days if day.weekday() in _WORKING_DAYS]
    # Without a run on a weekend assume working days only, which is the weaker claim.
    if len(working_days_with_run) == len(days) and len(days) >= _MATCH_SHARE * len(working):
        return "* * 1-5"
    return "* * *" if len(days) >= _MATCH_SHARE * len(span) else None


def _fit_weekdays(days: Sequence[date], least: int) -> str | None:
    """Return the day fields for up to three weekdays; None if they do not fit."""
    counts: dict[int, int] = defaultdict(int)
    for day in days:
        counts[day.weekday()] += 1
    offered: dict[int, int] = defaultdict(int)
    for day in _days_between(days):
        offered[day.weekday()] += 1
    usual = sorted(
        day
        for day, count in counts.items()
        if count >= least and count >= _MATCH_SHARE * offered[day]
    )
    if (
        not usual
        or len(usual) > _WEEKDAYS_LIMIT
        or not _is_most(days, sum(counts[day] for day in usual))
    ):
        return None
    return "* * " + ",".join(str(day + 1) for day in usual)


def _fit_month_day(days: Sequence[date], least: int) -> str | None:
    """Return the day fields for one day of the month; None if it does not fit."""
    counts: dict[int, set[int]] = defaultdict(set)
    for day in days:
        counts[day.day].add(day.year * 12 + day.month)
    number = min(counts, key=lambda number: (-len(counts[number]), number))
    months = counts[number]
    is_kept = len(months) >= least and len(months) >= _MATCH_SHARE * (max(months) - min(months) + 1)
    if number > _LAST_COMMON_DAY or not is_kept or not _is_most(days, len(months)):
        return None
    return f"{number} * *"


def _is_most(days: Collection[date], count: int) -> bool:
    return count >= _MATCH_SHARE * len(days)


def _days_between(days: Sequence[date]) -> list[date]:
    # At most 1500 days are checked, so that one early instant does not cost time.
    first = max(days[0], days_after(days[-1], -1_500))
    return [days_after(first, count) for count in range((days[-1] - first).days + 1)]


def _find_busiest_window(places: Sequence[int], circle: int, window: int) -> tuple[int, int]:
    """Return the middle of the window with most positions on a circle, rounded to 5 minutes, and their number."""
    around = sorted(places)
    around += [position + circle for position in around]
    best, best_count, end = 0, 0, 0
    for start in range(len(places)):
        while end < len(around) and around[end] - around[start] <= window:
            end += 1
        count = min(end - start, len(places))
        if count > best_count:
            best, best_count = start, count
    middle = around[best + (best_count - 1) // 2]
    return (middle + 2) // 5 * 5 % circle, best_count
