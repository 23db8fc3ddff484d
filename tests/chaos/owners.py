"""Owners that write and read through four standards, one act after the other, and remember what they were promised.

Every text carries the mark of its owner: a mark in somebody else's answer is a leak. What an owner was promised is a
list of acts, each of which adds a text, takes one away, or both; the store must hold what some beginning of that list
leaves, and without damage all of it. An act whose answer never came may have happened or not: its texts are not
looked at.
"""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import httpx

_MARK: Final = re.compile(r"mark(\d+)x(\d+)e")
SPACE: Final = "chaos"
NAMESPACE: Final = "user:chaos"
# What may be answered when a server is overloaded, without room, or about to be killed.
_EXCUSED: Final = frozenset({429, 503})


def marks_in(text: str) -> set[str]:
    """The texts that something names."""
    return {found[0] for found in _MARK.finditer(text)}


@dataclass(frozen=True, slots=True)
class Act:
    """One write: what it added and took away, and how many versions it wrote; unsure if its answer never came."""

    adds: str | None
    takes: str | None
    versions: int
    is_sure: bool = True


@dataclass(slots=True)
class Kept:
    """A memory that is there: its text, and how its standard names it."""

    standard: str
    text: str
    name: str


@dataclass(slots=True)
class Owner:
    """One owner with a key of its own."""

    number: int
    tenant: str
    key: str
    rng: random.Random
    acts: list[Act] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    # Of acts without an answer.
    unsure: set[str] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)
    answered: int = 0
    refused: int = 0
    # How often each status was answered; 0 is no answer.
    statuses: Counter[int] = field(default_factory=Counter)
    _count: int = 0

    def live(self, upto: int | None = None) -> set[str]:
        """What the first so many acts leave."""
        found: set[str] = set()
        for act in self.acts[:upto]:
            found.discard(act.takes or "")
            if act.adds:
                found.add(act.adds)
        return found

    def matching(self, actual: set[str], *, at_least: int = 0) -> int | None:
        """After how many of the acts, at most, the store would be as it is; None if it never was."""
        differing = (self.live() ^ actual) - self.unsure
        for count in range(len(self.acts), at_least - 1, -1):
            if not differing:
                return count
            if count == 0:
                break
            act = self.acts[count - 1]
            differing ^= {text for text in (act.adds, act.takes) if text and text not in self.unsure}
        return None

    def go_back(self, count: int, actual: set[str]) -> None:
        """Only so many acts are left, and this is what is there."""
        self.acts = self.acts[:count]
        self.kept = [each for each in self.kept if each.text in actual]

    # --- acts ----------------------------------------------------------------------------------------------

    def run(self, url: str, stop: threading.Event) -> None:
        """Act until told to stop, or until nobody answers."""
        headers = {"Authorization": f"Bearer {self.key}"}
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            while not stop.is_set():
                if not self.step(client):
                    return

    def step(self, client: httpx.Client) -> bool:
        """One act or one look; False if the server is gone."""
        writes: Sequence[Callable[[httpx.Client], bool]] = (self._ump, self._oams, self._oms, self._openwop)
        changes: Sequence[Callable[[httpx.Client], bool]] = (self._change, self._take_away)
        chosen = self.rng.choice((*writes, *(changes if self.kept else ()), self._look, self._look))
        return chosen(client)

    def _text(self) -> str:
        self._count += 1
        return f"mark{self.number}x{self._count}e"

    def _ask(self, client: httpx.Client, method: str, path: str, body: Any = None) -> httpx.Response | None:
        """The answer; None if there is none. Whatever somebody else's mark is in, is a leak."""
        try:
            answer = client.request(method, path, json=body) if body is not None else client.request(method, path)
        except httpx.HTTPError:
            self.statuses[0] += 1
            return None
        self.statuses[answer.status_code] += 1
        if strangers := {each for each in marks_in(answer.text) if not each.startswith(f"mark{self.number}x")}:
            self.violations.append(f"{method} {path} told {self.tenant} of {sorted(strangers)[:3]}")
        # A namespace of OAMS is not there before something is.
        is_empty = answer.status_code == 404 and method == "GET"
        if answer.status_code >= 300 and answer.status_code not in _EXCUSED and not is_empty:
            self.violations.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        return answer

    def _write(
        self,
        client: httpx.Client,
        request: tuple[str, str, Any],
        *,
        adds: str | None = None,
        takes: str | None = None,
        versions: int = 1,
    ) -> dict[str, Any] | None:
        """Ask for a write and put down what came of it; its answer, None if it is not sure to have happened."""
        answer = self._ask(client, *request)
        is_sure = answer is not None and answer.status_code < 300
        if not is_sure:
            self.unsure |= {text for text in (adds, takes) if text}
            self.refused += 1
        self.answered += is_sure
        self.acts.append(Act(adds, takes, versions, is_sure))
        if answer is None or not is_sure:
            return None
        found: dict[str, Any] = answer.json() if answer.content else {}
        return found

    def _is_alive(self, client: httpx.Client) -> bool:
        try:
            return client.get("/healthz").status_code == 200
        except httpx.HTTPError:
            return False

    def _new(self, client: httpx.Client, standard: str, text: str, request: tuple[str, str, Any], name: str) -> bool:
        made = self._write(client, request, adds=text)
        if made is None:
            return self._is_alive(client)
        self.kept.append(Kept(standard, text, str(made.get(name, name))))
        return True

    def _ump(self, client: httpx.Client) -> bool:
        text = self._text()
        return self._new(client, "ump", text, ("POST", "/ump/remember", self._record(text)), "id")

    def _record(self, text: str) -> dict[str, Any]:
        return {
            "kind": "semantic",
            "body": {"text": f"note {text}"},
            "scope": {"owner": self.tenant, "project": SPACE},
            "provenance": {"actor": self.tenant, "actor_kind": "user", "method": "chaos"},
        }

    def _oams(self, client: httpx.Client) -> bool:
        text = self._text()
        path = f"/v1/oams/memories/{quote(NAMESPACE, safe='')}/key{self._count}"
        return self._new(client, "oams", text, ("PUT", path, {"value": f"value {text}"}), path)

    def _oms(self, client: httpx.Client) -> bool:
        text = self._text()
        return self._new(client, "oms", text, ("POST", "/oms/grains", self._grain(text)), "address")

    def _grain(self, text: str) -> dict[str, Any]:
        said = {"type": "belief", "subject": f"topic {self.number}", "relation": "says", "object": text}
        return {**said, "confidence": 0.9, "created_at": 1768471200000 + self._count, "namespace": SPACE}

    def _openwop(self, client: httpx.Client) -> bool:
        text = self._text()
        return self._new(client, "openwop", text, ("POST", f"/v1/memory/{SPACE}", {"content": f"entry {text}"}), "id")

    def _change(self, client: httpx.Client) -> bool:
        """A new wording of something."""
        old = self.kept.pop(self.rng.randrange(len(self.kept)))
        text = self._text()
        if old.standard == "ump":
            request = ("POST", "/ump/revise", {"id": old.name, "patch": {"body": {"text": f"note {text}"}}})
            made, name = self._write(client, request, adds=text, takes=old.text), "id"
        elif old.standard == "oams":
            request = ("PUT", old.name, {"value": f"value {text}"})
            made, name = self._write(client, request, adds=text, takes=old.text), old.name
        elif old.standard == "oms":
            request = ("POST", f"/oms/grains/{old.name}/supersede", {"grain": self._grain(text), "justification": "x"})
            made, name = self._write(client, request, adds=text, takes=old.text), "address"
        else:
            self.kept.append(old)
            return True
        if made is None:
            return self._is_alive(client)
        self.kept.append(Kept(old.standard, text, str(made.get(name, name))))
        return True

    def _take_away(self, client: httpx.Client) -> bool:
        """Forget something: softly, or for good."""
        old = self.kept.pop(self.rng.randrange(len(self.kept)))
        if old.standard == "oams":
            request: tuple[str, str, Any] = ("DELETE", old.name, None)
        elif old.standard == "openwop":
            request = ("DELETE", f"/v1/memory/{SPACE}/{quote(old.name, safe='')}", None)
        elif old.standard == "ump":
            hard = self.rng.random() < 0.5
            request = ("POST", "/ump/forget", {"id": old.name, "reason": "asked", "hard": hard})
        else:
            self.kept.append(old)
            return True
        made = self._write(client, request, takes=old.text, versions=0)
        return made is not None or self._is_alive(client)

    def _look(self, client: httpx.Client) -> bool:
        """Read something; what was forgotten is in no answer."""
        looks = (
            ("POST", "/ump/recall", {"query": f"note mark{self.number}x{max(1, self._count)}e"}),
            ("GET", f"/v1/oams/memories/{quote(NAMESPACE, safe='')}", None),
            ("GET", f"/v1/memory/{SPACE}", None),
            ("POST", "/oms/grains/search", {"subject": f"topic {self.number}", "namespace": SPACE}),
            ("POST", "/cal", {"query": "RECALL RECENT 5", "namespace": SPACE}),
        )
        method, path, body = self.rng.choice(looks)
        gone = {act.takes for act in self.acts if act.takes and act.is_sure} - self.unsure - self.live()
        answer = self._ask(client, method, path, body)
        if answer is not None and answer.status_code == 200:
            if back := marks_in(answer.text) & gone:
                self.violations.append(f"{method} {path} told of {sorted(back)[:3]}, which was forgotten")
            return True
        return self._is_alive(client)
