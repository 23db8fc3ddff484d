"""Learning from sessions: what a person stated becomes a candidate, which somebody accepts or rejects.

A candidate names the turn that it rests on. Its id follows from the project and the text, so the same statement is
proposed once: not again by another session or host, and not after it was accepted, changed or rejected. Rules of the
person may accept kinds of statements at once (`learn_allow`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from memoranda.app import Memoranda
from memoranda.consolidation.learning.rules import Statement, find_statements
from memoranda.encoding.injection import find_instructions
from memoranda.errors import Conflict, InvalidInput, MemorandaError, NotFound
from memoranda.hosts.source_turns import SourceTurn
from memoranda.library.results import Memory
from memoranda.model.memory import KINDS
from memoranda.service.core.secret_screening import detect_kinds
from memoranda.service.ump.revise import Revised
from memoranda.standards.ump.mapping import CANDIDATE_TAG
from memoranda.standards.ump.signature import encode_random_id

# The member of `body.structured` with the sentence and the turn that a candidate rests on.
LEARNED_KEY: Final = "memoranda:learned"
METHOD: Final = "learn"
Outcome = Literal["proposed", "accepted", "repeated", "refused"]
# Memories that are compared with a statement.
_COMPARED: Final = 3
_WORDS: Final = re.compile(r"\w+")
_RULE_FIELDS: Final = ("kind", "project", "agent", "confidence")


@dataclass(frozen=True, slots=True)
class LearningRule:
    """A rule by which statements are accepted at once: each given field must match."""

    kind: str = ""
    project: str = ""
    agent: str = ""
    confidence: float = 0.0

    @classmethod
    def parse(cls, text: str) -> LearningRule:
        """Return the rule in a text such as `kind=identity confidence=0.9`. Raises InvalidInput."""
        pairs = dict(part.partition("=")[::2] for part in text.split())
        unknown = next((name for name in pairs if name not in _RULE_FIELDS), None)
        if unknown is not None or not pairs:
            raise InvalidInput(
                f"learn_allow: {text!r} is no rule; write kind=…, project=…, agent=… or confidence=…, for example "
                "'kind=identity confidence=0.9'"
            )
        if pairs.get("kind", "semantic") not in KINDS:
            raise InvalidInput(f"learn_allow: kind must be one of {', '.join(KINDS)}")
        try:
            confidence = float(pairs.get("confidence", "0"))
        except ValueError:
            confidence = -1.0
        if not 0 <= confidence <= 1:
            raise InvalidInput("learn_allow: confidence must be a number from 0 to 1")
        return cls(
            pairs.get("kind", ""), pairs.get("project", ""), pairs.get("agent", ""), confidence
        )

    def allows(self, statement: Statement, turn: SourceTurn) -> bool:
        """Return True if a statement is accepted by this rule."""
        return (
            self.kind in ("", statement.kind)
            and self.project in ("", turn.project)
            and self.agent in ("", turn.agent)
            and statement.confidence >= self.confidence
        )


@dataclass(slots=True)
class LearningReport:
    """The number of turns that were read, and of statements by what became of them."""

    turns: int = 0
    proposed: int = 0
    accepted: int = 0
    repeated: int = 0
    refused: int = 0

    def count(self, outcome: Outcome) -> None:
        """Count a statement."""
        setattr(self, outcome, getattr(self, outcome) + 1)

    def document(self) -> dict[str, int]:
        """Return the counts as JSON."""
        return {
            name: getattr(self, name)
            for name in ("turns", "proposed", "accepted", "repeated", "refused")
        }


class Learner:
    """Proposes the statements in turns as candidates of one memory."""

    def __init__(self, memoranda: Memoranda, allow: Sequence[str] = ()) -> None:
        self._memoranda = memoranda
        self._rules = [LearningRule.parse(text) for text in allow]
        self.report = LearningReport()

    @property
    def owner(self) -> str:
        """The owner of the memory."""
        return self._memoranda.owner

    def learn(self, turns: Iterable[SourceTurn]) -> LearningReport:
        """Propose the explicit statements in turns."""
        for turn in turns:
            self.report.turns += 1
            for statement in find_statements(turn.text):
                self.report.count(self.propose(statement, turn, "rules"))
        return self.report

    def propose(self, statement: Statement, turn: SourceTurn, by: str) -> Outcome:
        """Propose a statement, and return what became of it. `by`: the method that found it."""
        if find_instructions(statement.text) or detect_kinds({"text": statement.sentence}):
            return "refused"
        name = candidate_id(self._memoranda.owner, turn.project, statement.text)
        if self._is_known(name, statement, turn):
            return "repeated"
        is_allowed = any(rule.allows(statement, turn) for rule in self._rules)
        draft = _build_draft(statement, turn, by, status="active" if is_allowed else "candidate")
        verbs = self._memoranda.ump
        try:
            verbs.remember(verbs.with_defaults({**draft, "id": name}, method=f"{METHOD}:{by}"))
        except Conflict:
            # Another process proposed it meanwhile.
            return "repeated"
        except MemorandaError:
            # A secret that may not be stored, or a limit of the owner: the other statements go on.
            return "refused"
        return "accepted" if is_allowed else "proposed"

    def _is_known(self, name: str, statement: Statement, turn: SourceTurn) -> bool:
        """Return True if the statement was proposed before, or is in a memory word by word."""
        try:
            self._memoranda.get(name)
        except NotFound:
            pass
        else:
            return True
        words = _words_of(statement.text)
        hits = self._memoranda.recall(
            statement.text, project=turn.project or None, limit=_COMPARED, kind=_STATEMENT_KINDS
        )
        return any(_words_of(hit.text) == words for hit in hits)


# Kinds of memories that state something; a turn of a conversation repeats what is learnt from it.
_STATEMENT_KINDS: Final = [kind for kind in KINDS if kind != "episodic"]


def _words_of(text: str) -> list[str]:
    return _WORDS.findall(text.casefold())


def candidate_id(owner: str, project: str, text: str) -> str:
    """Return the id of a candidate, which the same statement in the same project always has."""
    parts = "\x00".join((owner, project, " ".join(_words_of(text))))
    return encode_random_id(hashlib.sha256(parts.encode("utf-8", "surrogatepass")).digest()[:16])


def _build_draft(
    statement: Statement, turn: SourceTurn, by: str, *, status: str
) -> dict[str, object]:
    """Return the draft of a candidate, with the turn that it rests on as its source and evidence."""
    scope = {"project": turn.project, "agent": turn.agent, "session": turn.session}
    learned = {"sentence": statement.sentence, "cue": statement.cue, "turn": turn.id}
    return {
        "kind": statement.kind,
        "body": {"text": statement.text, "structured": {LEARNED_KEY: learned}},
        "scope": {name: value for name, value in scope.items() if value},
        "lifecycle": {"status": status, "confidence": statement.confidence},
        "provenance": {
            "actor": turn.agent or METHOD,
            "actor_kind": "scan" if by == "rules" else "model",
            "method": f"{METHOD}:{by}",
            "source": {"provider": turn.agent or METHOD, "ref": turn.reference},
            "evidence": [{"ref": turn.reference}],
        },
    }


# --- decisions -------------------------------------------------------------------------------------------------------


def list_candidates(
    m: Memoranda, *, project: str | None = None, agent: str | None = None, limit: int = 50
) -> Sequence[Memory]:
    """Return the candidates that wait for a decision, last updated first."""
    return m.list(project=project, agent=agent, tags=[CANDIDATE_TAG], limit=limit)


def accept_candidate(m: Memoranda, name: str, text: str | None = None) -> Revised:
    """Accept a candidate, in other words if a text is given; it keeps the turn that it rests on.

    Needs the scope `activate`.
    """
    return m.ump.change(name, text, None, {"lifecycle": {"status": "active"}})


def reject_candidate(m: Memoranda, name: str) -> None:
    """Reject a candidate: it is forgotten, and not proposed again."""
    m.forget(name, reason="rejected")
