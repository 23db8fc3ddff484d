"""learn: find what people stated in sessions, and propose it as candidates.

The steps: find the sessions (named, or those of every agent program on this machine), read their turns with the
importers, let `learning` find statements of the person, and propose them as candidates. Nothing becomes a memory here;
that happens with `candidates accept`. Turns of the agent are read only to understand those of the person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from memoranda.bindings.files.importers.importer import ImportDraft
from memoranda.bindings.files.importers.registry import ImportCodec, recognise_importer
from memoranda.cli.options import read_duration_ms
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import count_phrase, line, note
from memoranda.errors import InvalidInput, NotFound
from memoranda.hosts.learning import Learner
from memoranda.hosts.source_turns import SourceTurn
from memoranda.hosts.table import HOSTS, Machine, find_sessions

if TYPE_CHECKING:
    from memoranda.hosts.model_learning import ModelLearner
    from memoranda.settings import Settings

# The speaker with which importers mark what a person said.
_PERSON: Final = "User: "


def learn(
    *sources: Annotated[
        Path,
        Parameter(
            name="FILE",
            help="Sessions: files or folders (default: those of all agent programs on this machine).",
        ),
    ],
    session: Annotated[str | None, Parameter(help="Only the session with this id.")] = None,
    since: Annotated[
        str | None, Parameter(help="Only turns of this long ago or later, such as 7d.")
    ] = None,
    dry_run: Annotated[
        bool, Parameter(help="Count the turns, and propose nothing. It calls no model.")
    ] = False,
    run: GivenRun,
) -> int:
    """Find what people stated in sessions, and propose it as candidates (`memoranda candidates`).

    Explicit statements are found by rules. With the setting `learner` a language model reads the turns, too; its
    statements are proposed only if the turn that they name supports them. The model gets each
    turn once, also if a run was interrupted.
    """
    paths = sources or _find_all_sessions()
    settings = run.settings()
    least_ms = 0 if since is None else read_duration_ms(since, "--since")
    with run.open() as memoranda:
        earliest = 0 if since is None else memoranda.service.context.clock() - least_ms
        sessions = _select_sessions(paths, session, earliest)
        if dry_run:
            turns = sum(len(_person_turns(drafts)) for drafts in sessions)
            run.answer({"turns": turns, "dry_run": True}, lambda: line(count_phrase(turns, "turn")))
            return 0
        learner = Learner(memoranda, settings.learn_allow)
        reader = _open_reader(settings, learner)
        for drafts in sessions:
            learner.learn(_person_turns(drafts))
            if reader is not None:
                reader.learn(_all_turns(drafts))
    document: dict[str, object] = dict(learner.report.document())
    problem = ""
    if reader is not None:
        document["model"] = reader.document()
        problem = reader.problem

    def show() -> None:
        report = learner.report
        line(
            f"{count_phrase(report.turns, 'turn')}: {report.proposed} to decide, {report.accepted} accepted, "
            f"{report.repeated} known, {report.refused} refused"
        )
        if reader is not None:
            line(reader.describe())
        if report.proposed:
            note("to decide: memoranda candidates")

    run.answer(document, show)
    if problem:
        note(
            f"the model was not asked about everything: {problem}; run the command again to continue"
        )
    return 1 if problem else 0


def _find_all_sessions() -> tuple[Path, ...]:
    """Return where the agent programs of this machine keep their sessions. Raises NotFound."""
    machine = Machine.current()
    names = dict.fromkeys(host.name for host in HOSTS)
    paths = tuple(path for name in names for path in find_sessions(name, machine))
    if not paths:
        raise NotFound("no sessions of agent programs on this machine; name a file or a folder")
    return paths


def _select_sessions(
    paths: tuple[Path, ...], session: str | None, earliest: int
) -> Iterator[list[ImportDraft]]:
    """Yield the turns since `earliest` of each session, or of the one named.

    Raises InvalidInput for a source of another form, and NotFound.
    """
    for path in paths:
        if not path.exists():
            raise NotFound(f"{path}: there is no such file or folder")
        importer = recognise_importer(path)
        if importer is None:
            raise InvalidInput(f"{path}: not the sessions of an agent program that is known")
        results = ImportCodec(importer).read_drafts(str(path))
        drafts = (result for result in results if isinstance(result, ImportDraft))
        by_session: Callable[[ImportDraft], str] = lambda draft: draft.session  # noqa: E731
        for name, group in groupby(drafts, key=by_session):
            selected_drafts = [draft for draft in group if (draft.created or 0) >= earliest]
            if name and selected_drafts and session in (None, name):
                yield selected_drafts


def _person_turns(drafts: list[ImportDraft]) -> list[SourceTurn]:
    return [turn for turn, is_person in _all_turns(drafts) if is_person]


def _all_turns(drafts: list[ImportDraft]) -> list[tuple[SourceTurn, bool]]:
    """Return the turns of a session, and True for those of the person."""
    return [
        (
            SourceTurn(
                text=draft.text.partition(": ")[2] or draft.text,
                agent=draft.agent,
                session=draft.session,
                id=draft.id,
                project=draft.scope,
            ),
            draft.text.startswith(_PERSON),
        )
        for draft in drafts
    ]


def _open_reader(settings: Settings, learner: Learner) -> ModelLearner | None:
    """Return the learner that asks a model, if the settings name one."""
    if not settings.learner:
        return None
    from memoranda.consolidation.learning.model import ANTHROPIC_URL, ModelReader
    from memoranda.hosts.model_learning import STATE_FILE, ModelLearner, parse_prices

    url = ANTHROPIC_URL if settings.learner == "anthropic" else settings.learner
    if not settings.learner_model:
        raise InvalidInput("learner_model is missing: the name of the model to ask")
    reader = ModelReader(url=url, model=settings.learner_model, api_key=settings.learner_key)
    return ModelLearner(
        learner,
        reader,
        state=settings.home / STATE_FILE,
        prices=parse_prices(settings.learner_prices),
    )
