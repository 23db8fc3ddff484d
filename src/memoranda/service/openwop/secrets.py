"""Secrets of runs (openwop SR-1): resolved by the host's resolvers, known in process memory only, never stored.

A run keeps a keyed digest of each (`host.register_secret`), from which nothing can be read: a process that does not
know them all, because it was started since or is another one, writes nothing for the run until they are registered
again.

A run that resolves a secret has it registered, unless it is the platform's own. From then on nothing that the run
writes holds it: content and tags go through `redacted`, the one way to the store. Beside that, a policy for every
write of every standard: what merely looks like a secret is left, reported, or replaced.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec

from memoranda.errors import Conflict, InvalidInput, NotFound, Unsupported
from memoranda.service.core.limits import FairShares
from memoranda.service.core.secret_screening import notify

if TYPE_CHECKING:
    from memoranda.standards.openwop.entry import Draft
    from memoranda.standards.openwop.redaction import Policy, Secrets

Scope = Literal["user", "tenant", "run", "platform"]
# A resolver that hangs must not hold a run.
COMMAND_SECONDS: Final = 10.0
MAX_SECRET_BYTES: Final = 65_536
# Nothing shorter is taken for a secret.
SHORTEST_CHARS: Final = 8
_ID_CHARS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Resolved(msgspec.Struct, frozen=True):
    """A secret's value, and whose it is."""

    value: str
    scope: Scope

    def __repr__(self) -> str:
        return f"<Resolved secret of scope {self.scope}>"


class Resolver(Protocol):
    """Where secrets come from."""

    def resolve(self, secret_id: str) -> Resolved | None: ...


class EnvironmentResolver:
    """Secrets in environment variables: PREFIX and the id in capitals."""

    def __init__(
        self, prefix: str, *, scope: Scope = "platform", environ: Mapping[str, str] | None = None
    ) -> None:
        self._prefix, self._scope = prefix, scope
        self._environ = os.environ if environ is None else environ

    def resolve(self, secret_id: str) -> Resolved | None:
        name = self._prefix + secret_id.upper().replace("-", "_").replace(".", "_")
        value = self._environ.get(name)
        return None if value is None else Resolved(value, self._scope)


class FileResolver:
    """Secrets in files of a folder, one each, named by their id."""

    def __init__(self, folder: Path, *, scope: Scope = "tenant") -> None:
        self._folder, self._scope = folder, scope

    def resolve(self, secret_id: str) -> Resolved | None:
        try:
            with (self._folder / secret_id).open("rb") as file:
                data = file.read(MAX_SECRET_BYTES + 1)
        except OSError:
            return None
        if len(data) > MAX_SECRET_BYTES:
            raise InvalidInput(f"the secret {secret_id} is larger than {MAX_SECRET_BYTES} bytes")
        return Resolved(data.decode("utf-8", "replace").rstrip("\r\n"), self._scope)


class CommandResolver:
    """Secrets from a command, such as a password manager's: it gets the id as its last argument."""

    def __init__(self, command: Sequence[str] | str, *, scope: Scope = "user") -> None:
        self._command = shlex.split(command) if isinstance(command, str) else list(command)
        self._scope = scope

    def resolve(self, secret_id: str) -> Resolved | None:
        import subprocess

        try:
            # The id was checked: it is no option and no path.
            done = subprocess.run(  # noqa: S603
                [*self._command, secret_id],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode != 0 or len(done.stdout) > MAX_SECRET_BYTES:
            return None
        return Resolved(done.stdout.decode("utf-8", "replace").rstrip("\r\n"), self._scope)


# A run is known by its tenant too: hosts choose the ids of their runs, and two may choose the same.
RunKey = tuple[str, str]


# Characters of all spellings of secrets, of one tenant and of all: room for thousands of runs at once.
TENANT_CHARS_LIMIT: Final = 4 * 1_048_576
ALL_CHARS_LIMIT: Final = 32 * 1_048_576


class Vault:
    """The secrets of all runs of this process, by tenant and run, and the policy for what looks like one."""

    def __init__(
        self, resolvers: Sequence[Resolver] = (), *, policy: Policy = "off", is_alone: bool = True
    ) -> None:
        # Where several processes serve, a run's next request may come to one that does not know its secrets.
        self._is_alone = is_alone
        self._resolvers = tuple(resolvers)
        self._runs: dict[RunKey, Secrets] = {}
        # How much of the memory each tenant takes with them.
        self._sizes: FairShares[RunKey] = FairShares()
        self._digests: dict[RunKey, set[str]] = {}
        self._lock = threading.Lock()
        self.policy = policy

    def resolve(self, secret_id: str) -> Resolved:
        """The value of a secret, and whose it is. Raises NotFound."""
        if (
            not secret_id
            or len(secret_id) > 128
            or not _ID_CHARS.issuperset(secret_id)
            or secret_id[0] in ".-"
        ):
            raise InvalidInput("a secret's id has letters, digits, dots, hyphens and underscores")
        for resolver in self._resolvers:
            found = resolver.resolve(secret_id)
            if found is not None:
                return found
        raise NotFound(f"no secret {secret_id}")

    def register(self, run: RunKey, secret_id: str, value: str, digest: str = "") -> bool:
        """Let a value never be stored by this run. False: it is too short to be told from other text.

        `digest` is what the run keeps of it.
        """
        from memoranda.standards.openwop.redaction import Secrets

        if not self._is_alone:
            raise Unsupported(
                "secrets of runs are known to one process only; serve with one worker"
            )
        with self._lock:
            known = self._runs.setdefault(run, Secrets())
            is_known = known.register(secret_id, value)
            if is_known and digest:
                self._digests.setdefault(run, set()).add(digest)
            self._sizes.put(run, run[0], known.size_chars)
            self._make_room(run)
            return is_known

    def _make_room(self, run: RunKey) -> None:
        """Forget the secrets of older runs where there are too many: they write nothing until they say them again."""
        tenant = run[0]
        while self._sizes.weight_of(tenant) > TENANT_CHARS_LIMIT and (
            oldest := self._sizes.oldest_of(tenant)
        ) not in (
            None,
            run,
        ):
            assert oldest is not None
            self._forget(oldest)
        while (
            self._sizes.total > ALL_CHARS_LIMIT
            and (other := self._sizes.evict(lambda each: each != run)) is not None
        ):
            self._forget(other)

    def require(self, run: RunKey, digests: Collection[str]) -> None:
        """Raise Conflict unless this process knows every secret that a run resolved, by what the run keeps of them."""
        with self._lock:
            unknown = set(digests) - self._digests.get(run, set())
        if unknown:
            raise Conflict(
                f"the run resolved {len(unknown)} secret(s) that this process does not know; register them again first"
            )

    def end(self, run: RunKey) -> None:
        """The run is over: its secrets are forgotten."""
        with self._lock:
            self._forget(run)

    def _forget(self, run: RunKey) -> None:
        if (known := self._runs.pop(run, None)) is not None:
            known.clear()
        self._digests.pop(run, None)
        self._sizes.remove(run)

    def redacted(self, draft: Draft, run: RunKey | None) -> Draft:
        """An entry without the run's secrets, in content and tags; markers of other hosts become ours."""
        from memoranda.standards.openwop.entry import MAX_TAG_CHARS

        tags = [(tag, self.redacted_text(tag, run, "tags")) for tag in draft.tags]
        return draft.replace_fields(
            content=self.redacted_text(draft.content, run, "content"),
            # One that grew too long by its marker is left out: cut, the marker would be none.
            tags=tuple(clean for tag, clean in tags if clean == tag or len(clean) <= MAX_TAG_CHARS),
        )

    def redacted_text(self, text: str, run: RunKey | None, where: str) -> str:
        """A text of a run as it may be stored."""
        from memoranda.standards.openwop.redaction import convert_markers

        with self._lock:
            known = None if run is None else self._runs.get(run)
            clean = text if known is None else known.redact(text).text
        # After redaction: a marker that held the value itself would be respelt by converting it, and then not known.
        return self.screened(convert_markers(clean), where)

    def holds(self, text: str, run: RunKey) -> bool:
        """Whether a secret of the run stands in what cannot be redacted, such as a name."""
        with self._lock:
            known = self._runs.get(run)
            return known is not None and known.occurs_in(text)

    def redacted_value(self, value: Any, run: RunKey) -> Any:
        """Something of JSON's without the run's secrets, in every string of it."""
        if isinstance(value, str):
            return self.redacted_text(value, run, "run")
        if isinstance(value, Mapping):
            return {
                self.redacted_value(name, run): self.redacted_value(item, run)
                for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.redacted_value(item, run) for item in value]
        return value

    def screened(self, text: str, where: str) -> str:
        """The text as the policy lets it pass; what was noticed in it is told by its kind, never by its value."""
        if self.policy == "off" or len(text) < SHORTEST_CHARS:
            return text
        from memoranda.encoding.detection import screen

        passed, found = screen(text, self.policy)
        if found:
            notify(where, [each.kind for each in found], is_redacted=self.policy == "redact")
        return passed
