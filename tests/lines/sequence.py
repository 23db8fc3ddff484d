"""Sequences of steps: generated from a seed, performed on a real store and on the model, and compared after each step.

A step is a plain dictionary, so a sequence can be printed, replayed and made smaller. A memory is named by the number
of the step that wrote it; a step about a memory that was not written is left out.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.instant import Instant
from memoranda.service.exchange.report import Report
from tests import stores
from tests.commands import command
from tests.lines import stage as verbs
from tests.lines.clients import Unavailable
from tests.lines.model import VISIBILITIES, Copy, Line, Model, Refused, Version
from tests.lines.notes import CHANGES, NoteFolder
from tests.lines.stage import FAMILIES, FORMS, WITH_HISTORY, Clock, Stage, words_in, words_in_path
from tests.matrix.doors import ALL_READS, DAY, EXPORTS, LOGS, SPACE, texts
from tests.standards.openwop.samples import ARTIFACTS

Step: TypeAlias = dict[str, Any]
STANDARDS: Final = ("ump", "oams", "oms", "cal", "openwop")
_LINE: Final = ("line", "interface")
_FILE: Final = ("file", "form", "history")
# Steps with their weights, and the fields that they use.
STEPS: Final[Mapping[str, tuple[int, tuple[str, ...]]]] = {
    "write": (10, ("interface", "standard", "visibility")),
    "write many": (1, ()),
    "revise": (14, (*_LINE, "standard", "visibility", "choice")),
    "tighten": (3, _LINE),
    "end": (2, _LINE),
    "forget": (6, (*_LINE, "standard")),
    "forget many": (2, (*_LINE, "other")),
    "forget earlier": (1, (*_LINE, "index")),
    "erase": (3, (*_LINE, "standard")),
    "erase earlier": (1, (*_LINE, "index")),
    "hold": (2, (*_LINE, "index")),
    "release": (2, (*_LINE, "index")),
    "time": (3, ("time",)),
    "jump": (2, ("time",)),
    "purge": (1, ()),
    "undo": (9, ("interface",)),
    "redo": (2, ("interface",)),
    "export": (4, ("form", "history")),
    "import": (3, _FILE),
    "bring": (6, _FILE),
    "adopt": (2, _FILE),
    "forget there": (2, ("line", "choice")),
    "undo there": (1, ()),
    "intrude": (2, ("line", "index", "choice")),
    "foreign": (1, ()),
    "sync": (5, ("line", "choice")),
    "revert": (3, _LINE),
    "remember again": (2, ("line",)),
    "write secret": (1, ("visibility",)),
    "redact": (2, _LINE),
    "compact": (1, ()),
    "distill": (1, ("line", "choice")),
    "consolidate": (1, ("choice",)),
    "propose": (1, ()),
    "serve": (1, ("workers",)),
    "reopen": (1, ()),
    "back up": (1, ()),
    "restore": (1, _FILE),
}
# Steps after which a memory is gone, or soon will be.
ENDING: Final = ("forget", "forget many", "erase", "end")
SHOWN_TO: Final[Mapping[str, tuple[str, ...]]] = {
    "owner": VISIBILITIES,
    "peer": ("shared", "public"),
    "stranger": ("public",),
}
# Readers of the owner, by what they must show: all memories that are current, or some of them.
LISTS: Final = ("ump list", "oams list", "oms list", "cal recall", "openwop list")
# Readers that look for memories; the first shows some of them only.
FINDERS: Final = (
    "ump prompt", "ump recall", "oams recall", "oms search", "cal like", "oms find", "cal assemble", "cal stream",
)  # fmt: skip
# The standard of the interfaces that have only one.
STANDARD_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(("cli", "mcp", "edit", "console", "typescript"), "ump"),
    "langgraph": "oams",
}
# Interfaces of a sequence with servers, besides the library.
INTERFACES: Final = ("http", "http", "mcp", "cli", "console", "typescript", "langgraph")
STRATEGIES: Final = ("synthesize", "validate", "evolve", "reflect", "insight_generate", "associate")
# A text that looks like a secret.
SECRET: Final = "ghp_" + "a1B2c3D4e5F6g7H8i9J1k2L3m4N5o6P7q8R9"
# Comparisons after each step; all of them are made at the end.
SAMPLE: Final = 4


class Finding(Exception):
    """A difference between the store and the model. `kind` is the same for differences of one cause."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(slots=True)
class File:
    """An exported file, and the versions that it holds: for each memory the numbers of its versions."""

    path: Path
    form: str
    versions: Mapping[int, tuple[int, ...]]


@dataclass(slots=True)
class Backup:
    path: Path
    model: Model


def generate(seed: int, length: int, *, is_embedded: bool = False) -> list[Step]:
    """Return a random sequence. An embedded one uses no server, and starts sooner."""
    rng = random.Random(seed)
    interfaces = ("library",) * 6 + (("cli", "langgraph") if is_embedded else INTERFACES)
    steps: list[Step] = []
    labels: list[int] = []
    for number in range(length):
        verb = rng.choices(list(STEPS), [weight for weight, _ in STEPS.values()])[0]
        if not labels:
            verb = "write"
        elif steps[-1]["verb"] in ("undo", "redo") and rng.random() < 0.3:
            verb = "redo"
        elif steps[-1]["verb"] == "sync" and rng.random() < 0.4:
            # A person's change of a written note shows only with the next run.
            verb = "sync"
        elif verb == "serve" and is_embedded:
            verb = "revise"
        values: Step = {
            "interface": rng.choice(interfaces),
            "standard": rng.choice(STANDARDS),
            "visibility": rng.choice(VISIBILITIES),
            "line": rng.choice(labels) if labels else number,
            "other": rng.choice(labels) if labels else number,
            "index": rng.randrange(4),
            "form": rng.choice(list(FORMS)),
            "history": rng.random() < 0.6,
            "file": rng.randrange(5),
            "time": rng.choice((1_000, 1_000, 3_600_000, DAY, DAY + 1)),
            "workers": rng.choice((1, 2)),
            "choice": round(rng.random(), 2),
        }
        if verb == "jump":
            # Ten days back are followed by every process, and hours by none (service/core/context.py).
            values["time"] = rng.choice((3_600_000, DAY + 1, -1_000, -3_600_000, -10 * DAY))
        step: Step = {"verb": verb, "number": number, **{name: values[name] for name in STEPS[verb][1]}}
        if verb in ("write", "write many", "write secret"):
            labels.append(number)
        if verb == "write many":
            labels.append(number + 1_000)
        if verb in ENDING and len(labels) > 1 and rng.random() < 0.7:
            # Most of what follows is about memories that are there.
            labels = [label for label in labels if label != step["line"]]
        steps.append(step)
    return steps


class Run:
    """One sequence on a real store. Raises Finding at the first difference."""

    def __init__(self, folder: Path, seed: int, clock: Clock, *, counts: Counter[str] | None = None) -> None:
        self._folder = folder
        self._rng = random.Random(f"{seed} checks")
        self.counts: Counter[str] = Counter() if counts is None else counts
        self.clock = clock
        self.model = Model()
        self.stage = Stage(folder / "home", self.clock)
        self.there: Stage | None = None
        self.other: Stage | None = None
        self.copy = Copy()
        # The other store before the last import, which can be undone.
        self.brought: Copy | None = None
        self.adopted = Copy()
        self.families: dict[int, str] = {}
        self.files: list[File] = []
        self.backups: list[Backup] = []
        self.notes: NoteFolder | None = None
        # True once a consolidation run was performed and undone, which the model does not undo again.
        self.has_run = False
        # Words of another tenant, with the times of their writing.
        self.foreign: dict[str, int] = {}
        self._words = 0
        # Readers that are asked for each version and caller.
        self._readers = 4

    def close(self) -> None:
        for stage in (self.stage, self.there, self.other):
            if stage is not None:
                stage.close()

    def perform(self, steps: Iterable[Step]) -> None:
        """Perform all steps, and compare the store with the model after each."""
        for step in steps:
            act = getattr(self, "_" + step["verb"].replace(" ", "_"))
            before = self.stage.now
            try:
                outcome = act(step)
            except Finding:
                raise
            except (AssertionError, Exception) as error:
                name = type(error).__name__
                raise Finding(f"{step['verb']} fails with {name}", f"{error} {_place(error)}") from error
            self.counts[f"{step['verb']} {outcome}"] += 1
            if outcome == "left out":
                continue
            # The clock moves on, so that no two steps are simultaneous.
            if self.stage.now == before:
                self.stage.advance(1)
            self._compare(sample=SAMPLE)
        self._compare(sample=None)

    # --- helpers of steps ---------------------------------------------------------------------------------------------

    def _new_word(self) -> str:
        self._words += 1
        return f"zq{self._words:06}"

    def _both(self, step: Step, expected: Callable[[], object], actual: Callable[[], object]) -> str:
        """Do the same to the model and to the store; both must do it, or refuse it. Return the outcome."""
        before = self.model.copy()
        if "cli" in (step.get("interface"), step.get("really")):
            self._note_purge()
        try:
            expected()
            is_allowed = True
        except Refused as error:
            is_allowed, reason = False, str(error)
        try:
            actual()
        except (MemorandaError, Unavailable) as error:
            if is_allowed and self._may_refuse(step, before, str(error)):
                self.model = before
                return "refused"
            if is_allowed:
                raise Finding(f"{step['verb']} is refused", f"{type(error).__name__}: {error}") from error
            return "refused"
        if not is_allowed:
            self.model = before
            raise Finding(f"{step['verb']} is not refused", reason)
        return "done"

    def _note_purge(self) -> None:
        """Note that a command erased what had ended, by the clock of erasures."""
        self.model.purge(self.stage.believed())

    @staticmethod
    def _may_refuse(step: Step, model: Model, message: str) -> bool:
        """Return True if a standard may refuse what others do."""
        # CAL cannot revise a memory with such a consent, and names the standard that can.
        if "a grain cannot express" in message:
            return True
        # The versions of an OAMS memory share one name, and so a hold of one of them.
        lines = [model.lines.get(step["line"])] if "line" in step else model.lines.values()
        return any(line is not None and line.is_held for line in lines)

    def _name_head(self, line: Line) -> None:
        """Note the names of a new head."""
        version = self.stage.head(line.head.word)
        names = self.stage.names(version)
        first = line.versions[0].names
        line.head.names = names if not first else {**names, "oams": first["oams"], "openwop": first["openwop"]}

    def _line(self, step: Step, name: str = "line") -> Line | None:
        return self.model.lines.get(step[name])

    # --- steps --------------------------------------------------------------------------------------------------------

    def _write(self, step: Step) -> str:
        word, interface = self._new_word(), step["interface"]
        standard = STANDARD_OF.get(interface, step["standard"])
        visibility = step["visibility"] if standard in ("ump", "oams", "oms") else "private"
        if interface in ("console", "langgraph"):
            visibility = "private"
        line = Line(step["number"], standard, [Version(word, visibility, begins=self.stage.now)])
        outcome = self._both(
            step,
            lambda: self.model.write(line),
            lambda: verbs.write(self.stage, interface, standard, word, visibility),
        )
        self._name_head(line)
        return outcome

    def _write_many(self, step: Step) -> str:
        now = self.stage.now
        lines = [Line(step["number"] + plus, "oams", [Version(self._new_word(), begins=now)]) for plus in (0, 1_000)]
        verbs.write_many(self.stage, [line.head.word for line in lines])
        self.model.write(*lines)
        for line in lines:
            self._name_head(line)
        return "done"

    def _revise(self, step: Step) -> str:
        line = self._line(step)
        if line is None:
            return "left out"
        interface, standard = step["interface"], step["standard"]
        if interface == "cli" and step["choice"] < 0.3:
            interface = "edit"
            step = {**step, "really": "cli"}
        standard = STANDARD_OF.get(interface, standard)
        if standard in ("oams", "openwop") and not line.is_live(self.stage.now):
            # It would be another memory under the same key.
            return "left out"
        word = self._new_word()
        visibility = step["visibility"] if standard in ("oams", "oms") else None
        if interface == "langgraph":
            visibility = "private"
        names = line.head.names
        outcome = self._both(
            step,
            lambda: self.model.revise(line.label, word, self.stage.now, visibility=visibility),
            lambda: verbs.revise(self.stage, interface, standard, names, word, visibility or ""),
        )
        if outcome == "done":
            self._name_head(line)
        return outcome

    def _tighten(self, step: Step, *, is_ending: bool = False) -> str:
        """Revise a memory so that it may not be exported, or ends."""
        line = self._line(step)
        if line is None:
            return "left out"
        word, name = self._new_word(), line.head.names["ump"]
        memoranda = self.stage.facade("http" if step["interface"] in ("http", "mcp") else "library")
        ends = self.stage.now + DAY if is_ending else None
        consent: dict[str, Any] = {"exportable": False} if ends is None else {"retention": "P1D"}
        outcome = self._both(
            {**step, "interface": "library"},
            lambda: self.model.revise(line.label, word, self.stage.now, is_exportable=ends is not None, ends=ends),
            lambda: memoranda.revise(name, word, **consent),
        )
        if outcome == "done":
            self._name_head(line)
        return outcome

    def _end(self, step: Step) -> str:
        return self._tighten(step, is_ending=True)

    def _forget(self, step: Step) -> str:
        line = self._line(step)
        if line is None:
            return "left out"
        interface = "library" if step["interface"] == "langgraph" else step["interface"]
        standard = STANDARD_OF.get(interface, step["standard"])
        if standard not in ("oams", "openwop") and not line.is_live(self.stage.now):
            # UMP forgets a forgotten memory again, without an effect.
            return "left out"
        return self._both(
            step,
            lambda: self.model.forget([line.label], self.stage.now),
            lambda: verbs.forget(self.stage, interface, standard, line.head.names),
        )

    def _forget_many(self, step: Step) -> str:
        labels = list(dict.fromkeys((step["line"], step["other"])))
        lines = [self.model.lines.get(label) for label in labels]
        if not all(line is not None and line.is_live(self.stage.now) for line in lines):
            return "left out"
        names = [line.head.names["ump"] for line in lines if line is not None]
        memoranda = self.stage.facade(step["interface"])
        return self._both(
            {**step, "interface": "library"},
            lambda: self.model.forget(labels, self.stage.now),
            lambda: memoranda.ump.forget_many(names),
        )

    def _forget_earlier(self, step: Step, *, is_hard: bool = False) -> str:
        line = self._line(step)
        if line is None or len(line.versions) < 2 or not line.is_live(self.stage.now):
            return "left out"
        if is_hard and line.standard == "oams":
            # The key of the memory is erased with the only document that has it.
            return "left out"
        index = step["index"] % (len(line.versions) - 1)
        version = line.versions[index]
        if version.is_erased or version.tombstone:
            return "left out"
        memoranda = self.stage.facade(step["interface"])
        return self._both(
            {**step, "interface": "library"},
            lambda: self.model.forget_earlier(line.label, index, is_hard=is_hard),
            lambda: memoranda.forget(version.names["ump"], hard=is_hard, reason="asked"),
        )

    def _erase_earlier(self, step: Step) -> str:
        return self._forget_earlier(step, is_hard=True)

    def _erase(self, step: Step) -> str:
        line = self._line(step)
        if line is None or line.head.is_erased or line.is_expired(self.stage.now):
            return "left out"
        standard = "ump" if line.is_forgotten else step["standard"]
        interface = step["interface"] if step["interface"] in ("cli", "http", "console") else "library"
        return self._both(
            {**step, "interface": interface},
            lambda: self.model.erase(line.label),
            lambda: verbs.erase(self.stage, interface, standard, line.head.names),
        )

    def _hold(self, step: Step, *, is_held: bool = True) -> str:
        line = self._line(step)
        if line is None or not line.is_live(self.stage.now):
            return "left out"
        index = step["index"] % len(line.versions)
        version = line.versions[index]
        if version.is_erased or version.tombstone:
            return "left out"
        if not is_held and not version.is_held:
            index = next((number for number, each in enumerate(line.versions) if each.is_held), index)
            version = line.versions[index]
        grains = self.stage.facade(step["interface"]).grains
        return self._both(
            {**step, "interface": "library"},
            lambda: self.model.hold(line.label, index, is_held=is_held),
            lambda: grains.set_hold(version.names["oms"], held=is_held, reason="a lawsuit"),
        )

    def _release(self, step: Step) -> str:
        return self._hold(step, is_held=False)

    def _time(self, step: Step) -> str:
        self.stage.advance(step["time"])
        return "done"

    def _jump(self, step: Step) -> str:
        """Set the clock, without time passing."""
        if self.stage.has_workers:
            # Workers erase what has ended in the background, at a time that no test knows.
            return "left out"
        self.stage.advance(step["time"], is_jump=True)
        return "done"

    def _revert(self, step: Step) -> str:
        line = self._line(step)
        if line is None or not line.head.names:
            return "left out"
        interface = "http" if step["interface"] in ("http", "mcp") else "library"
        names = line.head.names
        outcome = self._both(
            {**step, "interface": interface},
            lambda: self.model.revert(line.label, self.stage.now),
            lambda: verbs.revert(self.stage, interface, names),
        )
        if outcome == "done":
            self._name_head(line)
        return outcome

    def _remember_again(self, step: Step) -> str:
        """Remember the text of a memory that UMP wrote last; the memory is confirmed, and no other one is written."""
        line, now = self._line(step), self.stage.now
        if line is None or not line.is_live(now) or line.is_held or line.head.has_secret or self._not_yet_current():
            return "left out"
        head = line.head
        version = self.stage.head(head.word)
        is_plain = line.standard == version.document.standard == "ump" and version.bounds is None
        if not is_plain or self.stage.local.get(head.names["ump"]).record["body"] != {"text": head.word}:
            # The new text would not have what another standard stated about the memory.
            return "left out"
        result = self.stage.local.remember(head.word, project=SPACE, visibility=head.visibility)  # type: ignore[arg-type]
        if result.result != "merged":
            raise Finding("remember again writes another memory", str(result))
        self.model.merge(line.label)
        self._name_head(line)
        return "done"

    def _write_secret(self, step: Step) -> str:
        word, visibility = self._new_word(), step["visibility"]
        line = Line(step["number"], "ump", [Version(word, visibility, begins=self.stage.now, has_secret=True)])
        self.stage.local.remember(f"{word} {SECRET}", project=SPACE, visibility=visibility)
        self.model.write(line)
        self._name_head(line)
        return "done"

    def _redact(self, step: Step) -> str:
        """Take a secret out of a memory: no version holds it then."""
        line = self._line(step)
        if line is None or not line.is_live(self.stage.now) or not line.head.has_secret:
            return "left out"
        names = line.head.names
        memoranda = self.stage.facade("http" if step["interface"] in ("http", "mcp") else "library")
        outcome = self._both(
            {**step, "interface": "library"},
            lambda: self.model.redact(line.label, self.stage.now),
            lambda: memoranda.redact(names["ump"]),
        )
        if outcome == "done":
            line.head.has_secret = False
            self._name_head(line)
            versions = [version.record for version in self.stage.local.history(line.head.names["ump"])]
            if SECRET in " ".join(texts(versions)):
                raise Finding("redact leaves the secret", line.head.word)
        return outcome

    def _serve(self, step: Step) -> str:
        """Start the server again, with one process or two."""
        if step["workers"] > 1 and stores.ON_POSTGRES:
            # Databases of tests are not reached by other processes.
            return "left out"
        self.stage.serve(workers=step["workers"])
        return "done"

    # --- runs that combine memories -----------------------------------------------------------------------------------

    def _compact(self, _: Step) -> str:
        """Compact the entries of openwop, and undo it: the readers of all memories show the same words throughout."""
        openwop = self.stage.service.openwop
        try:
            run_id = openwop.compact(self.stage.owner, SPACE).run.run_id
        except InvalidInput:
            return "refused"
        for read in LISTS:
            self._check_list(read)
        self.stage.advance(1)
        openwop.undo_consolidation(self.stage.owner, run_id)
        self._forget_actions()
        return "done"

    def _distill(self, step: Step) -> str:
        """Write an archive of all memories, and forget or erase one of them: the archive goes with it."""
        line, openwop = self._line(step), self.stage.service.openwop
        if line is None or not line.is_live(self.stage.now) or line.is_held or not line.head.names:
            return "left out"
        name = openwop.distill(self.stage.owner, SPACE).entry["id"]
        for read in LISTS:
            self._check_list(read)
        self.stage.advance(1)
        if step["choice"] < 0.5:
            self.stage.local.forget(line.head.names["ump"])
            self.model.forget([line.label], self.stage.now)
        else:
            self.stage.local.forget(line.head.names["ump"], hard=True, reason="asked")
            self.model.erase(line.label)
        for read in LISTS:
            self._check_list(read)
        # It stays if the memory was none of its sources.
        openwop.delete_entry(self.stage.owner, SPACE, name)
        self._forget_actions()
        return "done"

    def _consolidate(self, step: Step) -> str:
        """Run a consolidation, and undo it."""
        strategy = STRATEGIES[int(step["choice"] * 100) % len(STRATEGIES)]
        run = self.stage.local.consolidate(strategy, namespace=self.stage.oams.namespace, dry_run=False)
        for read in LISTS:
            self._check_list(read)
        self.stage.advance(1)
        if run.outputs or run.taken_back:
            self.stage.local.undo(run.run_id)
        self._forget_actions()
        return "done"

    def _forget_actions(self) -> None:
        """Note that the next undo is about a run; what it does to the run is not modelled."""
        self.model.actions.clear()
        self.model.is_after_undo, self.has_run = False, True

    def _propose(self, _: Step) -> str:
        """Let an agent propose an automation, which is no memory."""
        word = self._new_word()
        openwop = self.stage.service.openwop
        proposal = openwop.propose(self.stage.owner, "automation", ARTIFACTS["automation"], title=word)
        for read in LISTS:
            self._check_list(read)
        openwop.reject_proposal(self.stage.owner, proposal["id"], reason="not now")
        return "done"

    def _purge(self, step: Step) -> str:
        self._note_purge()
        self.stage.service.purge()
        return "done"

    def _undo(self, step: Step, *, is_redo: bool = False) -> str:
        interface = step["interface"] if step["interface"] in ("cli", "http", "console") else "library"
        change = self.model.redo if is_redo else self.model.undo
        if self.has_run and not self._is_undo_modelled(change):
            return "left out"
        outcome = self._both(
            {**step, "interface": interface},
            lambda: change(self.stage.now),
            lambda: verbs.undo(self.stage, interface, is_redo=is_redo),
        )
        for line in self.model.live(self.stage.now):
            if not line.head.names:
                self._name_head(line)
        return outcome

    def _is_undo_modelled(self, change: Callable[[Instant], None]) -> bool:
        """Return True if an undo or a redo is about something else than a consolidation run."""
        model = self.model.copy()
        try:
            change.__func__(model, self.stage.now)  # type: ignore[attr-defined]
        except Refused:
            return False
        return True

    def _redo(self, step: Step) -> str:
        return self._undo(step, is_redo=True)

    def _reopen(self, _: Step) -> str:
        self.stage.reopen()
        return "done"

    # --- files and other stores ---------------------------------------------------------------------------------------

    def _export(self, step: Step) -> str:
        form = step["form"]
        has_history = step["history"] and form in WITH_HISTORY
        path, left_out = self.stage.export(form, self._folder, history=has_history)
        self._note_purge()
        words = words_in_path(path) if path.exists() else set()
        expected = self.model.exported(self.stage.now, history=has_history)
        # A form that cannot state all restrictions of a memory leaves it out by name.
        named = {version.word for version in self._versions() if version.names.get("ump") in left_out}
        self._require_within(f"export {form}", words, expected)
        self._require(f"export {form}", words - named, expected - named)
        self.files.append(
            File(path, form, {line.label: self._indexes(line, words) for line in self.model.live(self.stage.now)})
        )
        return "done"

    @staticmethod
    def _indexes(line: Line, words: set[str]) -> tuple[int, ...]:
        """Return the numbers of the versions of a memory whose words a file holds."""
        return tuple(number for number, version in enumerate(line.versions) if version.word in words)

    def _file(self, step: Step) -> File | None:
        """Return one of the files, or a new one."""
        if step["file"] >= len(self.files):
            self._export(step)
        file = self.files[min(step["file"], len(self.files) - 1)]
        return file if file.path.exists() else None

    def _import(self, step: Step) -> str:
        """Import a file where it came from: it changes nothing."""
        file = self._file(step)
        if file is None:
            return "left out"
        self.stage.import_file(file.path)
        self._note_purge()
        return "done"

    def _bring(self, step: Step) -> str:
        """Import a file into another store of the same owner: the newest version of each memory is current."""
        file = self._file(step)
        if file is None:
            return "left out"
        if self.there is None:
            self.copy = Copy()
            self.there = self.stage.twin(self._folder / "there")
        before = self.copy.copy()
        self.there.import_file(file.path)
        for label, indexes in file.versions.items():
            if indexes:
                self.copy.bring(label, max(indexes))
        self.brought = before if self.copy.heads != before.heads else None
        self._compare_there(f"bring {file.path.name.partition('-')[2]}")
        return "done"

    def _forget_there(self, step: Step) -> str:
        line = self._line(step)
        if self.there is None or line is None or line.label not in self.copy.heads:
            return "left out"
        if line.label in self.copy.forgotten:
            return "left out"
        word = line.versions[self.copy.heads[line.label]].word
        with suppress(AssertionError):
            names = self.there.names(self.there.head(word))
            self.there.forget(names["ump"], hard=step["choice"] < 0.3, reason="asked")
            self.copy.forgotten[line.label] = self.copy.heads[line.label]
            self.brought = None
        self._compare_there("forget there")
        return "done"

    def _undo_there(self, _: Step) -> str:
        """Undo the last import into the other store, if it brought something and nothing was done there since."""
        if self.there is None or self.brought is None:
            return "left out"
        self.there.command("undo")
        for label, index in self.copy.heads.items():
            if label not in self.brought.heads:
                self.copy.forgotten[label] = index
            elif index != self.brought.heads[label]:
                self.copy.uncertain.add(label)
        self.brought = None
        self._compare_there("undo there")
        return "done"

    def _adopt(self, step: Step) -> str:
        """Import a file as another owner's own memories."""
        file = self._file(step)
        if file is None:
            return "left out"
        if self.other is None:
            self.other = Stage(self._folder / "other", self.clock)
        self.other.import_file(file.path, adopt=True)
        family = FAMILIES[file.form]
        for label, indexes in file.versions.items():
            if indexes:
                self.adopted.bring(label, max(indexes))
                # An adopted memory has a new name, and its name in the file in the standard of that file only.
                if self.families.setdefault(label, family) != family:
                    self.adopted.uncertain.add(label)
        self._require_heads("adopt " + file.path.name.partition("-")[2], self.other, self.adopted)
        return "done"

    def _compare_there(self, kind: str) -> None:
        assert self.there is not None
        self._require_heads(kind, self.there, self.copy)

    def _require_heads(self, kind: str, stage: Stage, brought: Copy) -> None:
        """Require that another store has the newest version of each memory that came there, and no earlier one."""
        must: set[str] = set()
        may: set[str] = set()
        now = stage.context.clock()
        for label, index in brought.heads.items():
            line = self.model.lines[label]
            version = line.versions[index]
            if label in brought.forgotten:
                # A version that was written later may bring it back; the forgotten ones must not.
                may |= {version.word} if index > brought.forgotten[label] else set()
            elif label in brought.uncertain:
                may |= {earlier.word for earlier in line.versions[: index + 1]}
            elif version.begins > now:
                # The clock was set back since, so it is not current yet, and the version before it still is.
                may |= {earlier.word for earlier in line.versions[: index + 1]}
            elif version.ends is None or version.ends > now:
                must.add(version.word)
        words = words_in(" ".join(texts([memory.record for memory in stage.local])))
        if must - words:
            raise Finding(f"{kind} loses", f"{sorted(must - words)} of {sorted(must)}; there is {sorted(words)}")
        if words - must - may:
            raise Finding(f"{kind} revives", f"{sorted(words - must - may)} besides {sorted(must)}")

    def _sync(self, step: Step) -> str:
        """Let a person change a note, and bring the folder of notes and the store in step."""
        if self.notes is None:
            self.notes = NoteFolder(self._folder / "notes")
        self._note_purge()
        line, now = self._line(step), self.stage.now
        change = CHANGES[int(step["choice"] * 100) % len(CHANGES)]
        is_free = (
            line is not None
            and line.is_live(now)
            and not line.is_held
            # The note of a memory that was revised since is another case: what a person does to it is no change.
            and self.notes.shown.get(line.label) == len(line.versions) - 1
            and not self._not_yet_current()
        )
        path = self.notes.find(line.head.word) if line is not None and is_free else None
        if path is not None and line is not None:
            word, duplicate = self._new_word(), self.notes.find_copy(line.head.word)
            if duplicate is not None and change == "delete":
                # Without the note, its copy would be the note.
                path = duplicate
            elif duplicate is not None and change == "rename":
                # Nobody could tell which of the two is the note.
                change = "nothing"
            self.notes.change(path, change, line.head.word, word)
            copies = self.notes.find(line.head.word)
            if change == "edit":
                self.model.revise(line.label, word, now)
            elif change == "delete" and copies is None:
                self.model.forget([line.label], now)
        self.notes.sync(self.stage)
        for each in self.model.live(now):
            if not each.head.names:
                self._name_head(each)
        self.notes.shown = {line.label: len(line.versions) - 1 for line in self.model.live(now)}
        self._compare_notes()
        return "done" if path is None else change

    def _compare_notes(self) -> None:
        """Require that the notes show what is current, and that no file has a word that was erased."""
        assert self.notes is not None
        current = self.model.exported(self.stage.now, history=False)
        self._require("notes", self.notes.words(copies=False), current)
        # A copy of a note keeps an earlier text of the memory.
        shown = set().union(
            *(self.model.shown(line, self.stage.now, *VISIBILITIES) for line in self.model.live(self.stage.now))
        )
        self._require_within("copies of notes", self.notes.words(copies=True), shown)
        kept = {version.word for version in self._versions() if not version.is_erased}
        self._require_within("trash of notes", self.notes.discarded_words(), kept)

    def _back_up(self, _: Step) -> str:
        if stores.ON_POSTGRES:
            return "left out"
        path = self._folder / f"{len(self.backups)}.backup"
        self.stage.command("backup", str(path))
        self.backups.append(Backup(path, self.model.copy()))
        return "done"

    def _restore(self, step: Step) -> str:
        """Restore an older backup as the other store: it has what was there then."""
        if not self.backups:
            return "left out"
        backup = self.backups[step["file"] % len(self.backups)]
        if self.there is not None:
            self.there.close()
        home = self._folder / f"restored{step['number']}"
        home.mkdir(mode=0o700)
        done = command("--data", str(home), "restore", str(backup.path))
        if done.code:
            raise Finding("restore is refused", str(done.code))
        self.there = Stage(home, self.clock)
        now = self.there.context.clock()
        model = backup.model
        self.copy = Copy(
            {label: len(line.versions) - 1 for label, line in model.lines.items() if not line.head.is_erased},
            {
                label: len(line.versions) - 1
                for label, line in model.lines.items()
                if line.is_forgotten or line.is_expired(now)
            },
        )
        self.brought = None
        self._compare_there("restore")
        return "done"

    # --- others -------------------------------------------------------------------------------------------------------

    def _intrude(self, step: Step) -> str:
        """Let a peer who may only read, or a stranger, try to change a memory."""
        line = self._line(step)
        if line is None:
            return "left out"
        caller = self.stage.peer if step["choice"] < 0.5 else self.stage.stranger
        names = line.head.names
        service = self.stage.service
        attempts: tuple[Callable[[], object], ...] = (
            lambda: self.stage.forget(names["ump"], access=caller),
            lambda: self.stage.forget(names["ump"], access=caller, hard=True, reason="x"),
            lambda: self.stage.revise(names["ump"], access=caller, body={"text": "x"}),
            lambda: service.grains.erase(caller, names["oms"], reason="x"),
            lambda: service.openwop.delete_entry(caller, SPACE, names["openwop"]),
            lambda: service.undo_last(caller),
        )
        attempt = attempts[step["index"] + 2 * (step["choice"] < 0.25)]
        with suppress(MemorandaError):
            attempt()
        return "done"

    def _foreign(self, step: Step) -> str:
        """Let another tenant of the same store remember something."""
        word = self._new_word()
        self.stage.remember(word, access=self.stage.stranger, scope={"visibility": "private"})
        self.foreign[word] = self.stage.now
        return "done"

    # --- comparison ---------------------------------------------------------------------------------------------------

    def _require(self, kind: str, actual: set[str], expected: set[str]) -> None:
        """Raise Finding unless a reader shows exactly these words."""
        self._require_within(kind, actual, expected)
        missing = expected - actual - self._not_yet_current()
        if missing:
            raise Finding(f"{kind} misses", f"{sorted(missing)}; shows {sorted(actual)}")

    def _not_yet_current(self) -> set[str]:
        """Return the words of memories that were written later than the clock shows, which was set back."""
        lines = self.model.lines.values()
        return {line.head.word for line in lines if line.head.begins > self.stage.now}

    def _still_current(self) -> set[str]:
        """Return the words of the versions before those, which are valid until then."""
        now = self.stage.now
        return set().union(
            *(self.model.shown(line, now, *VISIBILITIES) for line in self.model.live(now) if line.head.begins > now)
        )

    def _require_within(self, kind: str, actual: set[str], allowed: set[str]) -> None:
        if actual - allowed - self._still_current():
            raise Finding(f"{kind} shows too much", f"{sorted(actual - allowed)} besides {sorted(allowed)}")

    def _compare(self, sample: int | None) -> None:
        """Compare what readers show with the model: some of them, or all."""
        self.counts["checks"] += 1
        self._readers = 4 if sample else 7
        checks = list(self._checks(is_complete=sample is None))
        for check in checks if sample is None else self._rng.sample(checks, min(sample, len(checks))):
            try:
                check()
            except Finding:
                raise
            except (AssertionError, Exception) as error:
                raise Finding(f"a reader fails with {type(error).__name__}", f"{error} {_place(error)}") from error

    def _checks(self, *, is_complete: bool) -> Iterator[Callable[[], None]]:
        """Yield the comparisons; of the memories, one is chosen at random unless all are wanted."""
        lines = [line for line in self.model.lines.values() if line.versions]
        for read in (*LISTS, "ump feed", *LOGS):
            yield lambda read=read: self._check_list(read)  # type: ignore[misc]
        for export in EXPORTS:
            yield lambda export=export: self._check_export(export)  # type: ignore[misc]
        yield self._check_foreign
        chosen = lines if is_complete else self._rng.sample(lines, min(2, len(lines)))
        for line in chosen:
            versions = line.versions if is_complete else [self._rng.choice(line.versions)]
            for version in versions:
                for caller in SHOWN_TO:
                    yield lambda line=line, version=version, caller=caller: self._check_names(  # type: ignore[misc]
                        line, version, caller
                    )
            interfaces = ("library", "cli", *self.stage.served_interfaces)
            for interface in interfaces if is_complete else ("library",):
                yield lambda line=line, interface=interface: self._check_interface(line, interface)  # type: ignore[misc]
            if self.stage.is_served:
                yield lambda line=line: self._check_remote_peer(line)  # type: ignore[misc]
                yield lambda line=line: self._check_console(line)  # type: ignore[misc]
        yield self._check_langgraph

    def _read(self, caller: str, read: str, names: Mapping[str, str], word: str) -> set[str]:
        """Return the words that a reader shows to a caller; none if it refuses."""
        access = {"owner": lambda: self.stage.owner, "peer": lambda: self.stage.peer}.get(
            caller, lambda: self.stage.stranger
        )()
        try:
            return words_in(" ".join(texts({**ALL_READS, **LOGS}[read](self.stage, access, names, word))))
        except MemorandaError:
            return set()

    def _check_list(self, read: str) -> None:
        now = self.stage.now
        for caller, shown_to in SHOWN_TO.items():
            words = self._read(caller, read, {}, "")
            kind = f"{read} to {caller}"
            if read in LOGS:
                self._require(kind, words, set())
            elif caller == "stranger":
                self._require_within(kind, words, self._public() | set(self.foreign))
            elif read == "ump feed":
                allowed = self.model.told_to_owner(now) if caller == "owner" else self._shown(caller)
                self._require_within(kind, words, allowed)
            elif caller == "owner" or read == "ump list":
                self._require(kind, words, self.model.heads(now, *shown_to))
            else:
                self._require_within(kind, words, self.model.heads(now, *shown_to))

    def _shown(self, caller: str) -> set[str]:
        """Return the words of all versions that a caller may see."""
        now = self.stage.now
        return set().union(*(self.model.shown(line, now, *SHOWN_TO[caller]) for line in self.model.lines.values()))

    def _public(self) -> set[str]:
        return self._shown("stranger")

    def _check_export(self, export: str) -> None:
        now = self.stage.now
        callers = {"owner": self.stage.owner, "peer": self.stage.peer, "stranger": self.stage.stranger}
        expected = self.model.exported(now, history=export != "oams export")
        for caller, access in callers.items():
            words: set[str] = set()
            with suppress(MemorandaError):
                words = words_in(" ".join(texts(list(EXPORTS[export](self.stage, access)))))
            if caller == "owner":
                if export == "oams export":
                    expected = expected - self._refused_by_oams()
                self._require(f"{export} to owner", words, expected)
            elif caller == "peer":
                self._require_within(f"{export} to peer", words, expected & self._shown("peer"))
            else:
                self._require_within(f"{export} to stranger", words, set(self.foreign))

    def _refused_by_oams(self) -> set[str]:
        """Return the words of memories that an export to OAMS leaves out by name; it cannot state all of them."""
        report = Report()
        for _ in self.stage.service.oams.export(self.stage.owner, report=report):
            pass
        left_out = {refusal.id for refusal in report.refusals}
        return {version.word for version in self._versions() if version.names.get("ump") in left_out}

    def _versions(self) -> Iterator[Version]:
        return (version for line in self.model.lines.values() for version in line.versions)

    def _check_foreign(self) -> None:
        words = words_in(" ".join(texts(self.stage.service.list_records(self.stage.stranger)[0])))
        current = {word for word, begins in self.foreign.items() if begins <= self.stage.now}
        self._require_within("list of another tenant", words, set(self.foreign))
        self._require("list of another tenant", words & current, current)

    def _check_names(self, line: Line, version: Version, caller: str) -> None:
        """Compare everything that is read by the names of one version, and found by its word."""
        now, shown_to, names = self.stage.now, SHOWN_TO[caller], version.names
        if not names:
            return
        is_live, heads = line.is_live(now), self.model.heads(now, *shown_to)
        shown = self.model.shown(line, now, *shown_to)
        is_shown = any(each is version for each in self.model.visible(line, *shown_to)) and is_live
        own = {version.word} if is_shown else set()
        retained = own
        if caller == "owner" and not line.is_expired(now) and not version.is_erased:
            retained = {version.word}
        kept = {each.word for each in line.versions if not each.is_erased} if not line.is_expired(now) else set()
        history = kept if caller == "owner" else shown
        head = {line.head.word} if is_live and line.head.visibility in shown_to else set()
        exact: dict[str, set[str] | None] = {
            "ump get": retained,
            "ump history": history if caller == "owner" or own or not is_live else None,
            "oms get": own,
            "oams get": head,
            "openwop get": head,
        }
        told = kept if caller == "owner" else shown
        within = {
            **dict.fromkeys(FINDERS, heads), "cal history": shown, "cal by hash": own, "ump standards": retained,
            "openwop of a line": head, "origins": told,
            **dict.fromkeys(("ump valid at", "ump known at", "ump list valid at"), self._shown(caller)),
        }  # fmt: skip
        readers = [*exact, *within]
        for read in self._rng.sample(readers, min(self._readers, len(readers))):
            words = self._read(caller, read, names, version.word)
            kind = f"{read} to {caller}"
            if caller == "stranger":
                # They find what is public and what is their own.
                self._require_within(kind, words, self._public() | set(self.foreign))
                self._require_within(kind, words & {version.word}, own)
            elif read in within:
                self._require_within(kind, words, within[read])
                if caller == "owner" and version is line.head and is_live and read in FINDERS[1:]:
                    self._require(f"{kind} of the head", words & {version.word}, {version.word})
            elif (expected := exact[read]) is not None and (caller == "owner" or read.startswith("ump")):
                self._require(kind, words, expected)
            else:
                self._require_within(kind, words, history if expected is None else expected)

    def _check_interface(self, line: Line, interface: str) -> None:
        """Compare what one interface shows to the owner."""
        now = self.stage.now
        if interface == "cli":
            self._note_purge()
        version = line.head
        listed, found, history = self._shown_by(interface, version)
        heads = self.model.heads(now, *VISIBILITIES)
        self._require(f"list by {interface}", listed, heads)
        self._require_within(f"recall by {interface}", found, heads)
        if line.is_live(now):
            self._require(f"recall by {interface} of the head", found & {version.word}, {version.word})
        kept = {each.word for each in line.versions if not each.is_erased} if not line.is_expired(now) else set()
        if version.names:
            self._require(f"history by {interface}", history, kept)

    def _check_remote_peer(self, line: Line) -> None:
        """Compare what the library shows to a peer over HTTP."""
        now, remote, word = self.stage.now, self.stage.remote_peer, line.head.word
        heads = self.model.heads(now, *SHOWN_TO["peer"])
        self._require("list by http to peer", _words_of(remote), heads)
        hits = [hit.record for hit in remote.recall(word, floor=False)]
        self._require_within("recall by http to peer", words_in(" ".join(texts(hits))), heads)
        shown = self.model.shown(line, now, *SHOWN_TO["peer"])
        for version in line.versions:
            if not version.names:
                continue
            words: set[str] = set()
            with suppress(MemorandaError):
                words = _words_of(remote.history(version.names["ump"])) | _words_of([remote.get(version.names["ump"])])
            self._require_within("history by http to peer", words, shown)

    def _check_console(self, line: Line) -> None:
        """Compare the pages of the console with what the owner is shown."""
        console, name = self.stage.console, line.head.names.get("ump")
        heads = self.model.heads(self.stage.now, *VISIBILITIES)
        self._require_within("list by console", words_in(console.read("/memories")), heads)
        if name is not None:
            is_expired = line.is_expired(self.stage.now)
            kept = set() if is_expired else {each.word for each in line.versions if not each.is_erased}
            # A page names similar memories, too.
            for page in ("", "/history", "/views"):
                self._require_within(
                    f"page{page} of console", words_in(console.read(f"/memory/{name}{page}")), kept | heads
                )

    def _check_langgraph(self) -> None:
        words = words_in(" ".join(texts(self.stage.langgraph.search())))
        self._require("langgraph search", words, self.model.heads(self.stage.now, *VISIBILITIES))

    def _shown_by(self, interface: str, version: Version) -> tuple[set[str], set[str], set[str]]:
        """Return the words of the list, of a recall, and of the history of a memory."""
        name = version.names.get("ump", "")
        if interface == "cli":
            printed = [
                self.stage.command("--json", *tokens)
                for tokens in (
                    ("list", "--limit", "500"),
                    ("recall", version.word, "--no-floor"),
                )
            ]
            try:
                history = self.stage.command("--json", "history", name)
            except Unavailable:
                history = ""
            listed, found = (words_in(text.partition('"query"')[0]) for text in printed)
            return listed, found, words_in(history)
        if interface == "typescript" and (client := self.stage.typescript) is not None:
            listed, found = (client.call("list", {"limit": 500}), client.call("recall", version.word, {"floor": False}))
            try:
                history = str(client.call("history", name))
            except Unavailable:
                history = ""
            return words_in(str(listed)), words_in(str(found)), words_in(history)
        memoranda = self.stage.facade(interface)
        try:
            versions = [entry.record for entry in memoranda.history(name)]
        except MemorandaError:
            versions = []
        return (
            _words_of(memoranda),
            words_in(" ".join(texts([hit.record for hit in memoranda.recall(version.word, floor=False)]))),
            words_in(" ".join(texts(versions))),
        )


def _words_of(memories: Iterable[Any]) -> set[str]:
    return words_in(" ".join(texts([memory.record for memory in memories])))


def _place(error: BaseException) -> str:
    """Return the last place of a traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"


# --- runs -------------------------------------------------------------------------------------------------------------


def perform(steps: Iterable[Step], seed: int, counts: Counter[str] | None = None) -> Finding | None:
    """Perform a sequence in a new store; return the first difference, if there is one."""
    with tempfile.TemporaryDirectory(prefix="memoranda-lines-") as folder:
        clock = Clock()
        with clock.installed():
            run = Run(Path(folder), seed, clock, counts=counts)
            try:
                run.perform(steps)
            except Finding as finding:
                return finding
            finally:
                run.close()
    return None


def shrink(steps: list[Step], seed: int, finding: Finding) -> tuple[list[Step], Finding]:
    """Return a sequence from which no step can be removed without losing a difference of the same kind."""
    size = max(1, len(steps) // 2)
    while size:
        start = 0
        while start < len(steps):
            fewer = [*steps[:start], *steps[start + size :]]
            other = perform(fewer, seed) if fewer else None
            if other is not None and other.kind == finding.kind:
                steps, finding = fewer, other
            else:
                start += size
        size //= 2
    return steps, finding
