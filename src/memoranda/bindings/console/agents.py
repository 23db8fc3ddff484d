"""The page of agents: one card for each key and each agent that wrote, with what it read and wrote lately.

An agent is put together from three sources, in this order: the open keys, the agents that memories name in their scope,
and the audit log. The same program often has a slightly different name in each, so names are compared by a simplified
form (`_slug`). Counts come from the latest entries of the log only, so a busy store fills fewer days than the chart
has; a key without all rights sees no uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from memoranda.bindings.console.govern import REVOKE_WORD, is_owner
from memoranda.bindings.console.looks import Source, actor_source, agent_source
from memoranda.bindings.console.visit import Answer, TemplatePage, Visit
from memoranda.model.instant import DAY_MS, Instant, parse_instant
from memoranda.model.selection import Selection
from memoranda.service.core.access import LockOut
from memoranda.service.ump.facets import count_facets
from memoranda.standards.ump.requests import AuditRequest
from memoranda.storage.engine.contract import ApiKey

# The latest entries of the audit log from which the uses are counted, and the days of a chart.
_EVENTS: Final = 500
_DAYS: Final = 28
_READING: Final = frozenset({"recall", "get", "list", "rehydrate", "history"})
_WRITING: Final = frozenset({"remember", "revise", "forget", "store", "put", "import"})


class Agent(msgspec.Struct, kw_only=True):
    """An agent: its keys, its latest read and write, and its reads and writes per day, the earliest first."""

    source: Source
    key: ApiKey | None = None
    lock_out: LockOut | None = None
    # The name of the agent in the scope of its memories, and their number.
    scope: str = ""
    memories: int = 0
    last_read: Instant | None = None
    last_write: Instant | None = None
    last_use: Instant | None = None
    reads: list[int] = msgspec.field(default_factory=lambda: [0] * _DAYS)
    writes: list[int] = msgspec.field(default_factory=lambda: [0] * _DAYS)

    @property
    def bars(self) -> list[tuple[int, int, int]]:
        """The heights of the chart for each day, of 34: all uses, and the writes, with the position of the bar."""
        largest = max((sum(pair) for pair in zip(self.reads, self.writes, strict=True)), default=0)
        return [
            (
                number * 10 + 1,
                max(1, 34 * (reads + writes) // (largest or 1)),
                34 * writes // (largest or 1),
            )
            for number, (reads, writes) in enumerate(zip(self.reads, self.writes, strict=True))
        ]


def show_agents(visit: Visit) -> Answer:
    """Show one card for each agent."""
    agents = _of_keys(visit)
    _add_memories(visit, agents)
    _add_uses(visit, agents)
    return TemplatePage(
        template="agents.html",
        context={
            "agents": sorted(agents.values(), key=lambda agent: agent.source.name.lower()),
            "is_owner": is_owner(visit.access),
            "revoke_word": REVOKE_WORD,
            "days": _DAYS,
        },
    )


def _of_keys(visit: Visit) -> dict[str, Agent]:
    """Return an agent for each key that is open, by the name of the key; a key for less sees only itself."""
    service, access = visit.service, visit.access
    gate, now = service.gate, service.context.clock()
    own_key = service.sessions.key_id(visit.session)
    agents: dict[str, Agent] = {}
    for key in gate.keys_of(access.default_tenant):
        if not key.is_open(now) or not (is_owner(access) or key.key_id == own_key):
            continue
        agents[_slug(key.name)] = Agent(
            source=agent_source(key.name),
            key=key,
            lock_out=gate.lock_out_reason(key, caller_key_id=own_key),
            last_use=gate.key_uses.last_use(key),
        )
    return agents


def _add_memories(visit: Visit, agents: dict[str, Agent]) -> None:
    """Add the agents that the memories name, with the number of their memories."""
    facets = count_facets(visit.service.context, visit.access, Selection())
    for name, count in facets.values["agent"]:
        agent = agents.setdefault(_slug(name), Agent(source=agent_source(name)))
        agent.scope, agent.memories = name, count


def _add_uses(visit: Visit, agents: dict[str, Agent]) -> None:
    """Add the latest uses from the audit log."""
    now = visit.service.context.clock()
    if not is_owner(visit.access):
        return
    events: Iterable[Any] = visit.service.audit(visit.access, AuditRequest(requested_limit=_EVENTS))
    for event in events:
        actor = event.get("actor") or {}
        name = str(actor.get("did") or "").removeprefix("key:")
        claimed = (event.get("scope") or {}).get("agent")
        agent = agents.get(_slug(str(claimed))) if claimed else None
        agent = agent or agents.get(_slug(name))
        if agent is None:
            source = actor_source(actor, visit.access.default_tenant, visit.text)
            if source.look in ("you", "person"):
                continue
            agent = agents.setdefault(_slug(name), Agent(source=source))
        _count_use(agent, str(event["op"]), parse_instant(event["ts"]), now)


def _count_use(agent: Agent, op: str, at: Instant, now: Instant) -> None:
    """Count one use of the memory by an agent."""
    verb = op.rpartition(".")[2]
    day = _DAYS - 1 - (now - at) // DAY_MS
    if verb in _READING:
        agent.last_read = at
        if 0 <= day < _DAYS:
            agent.reads[day] += 1
    elif verb in _WRITING:
        agent.last_write = at
        if 0 <= day < _DAYS:
            agent.writes[day] += 1


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-").replace("_", "-")
