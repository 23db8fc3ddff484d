"""Secrets of runs (openwop SR-1): resolved by the host's resolvers, held in process memory only, never stored.

A secret that a run resolves is registered in the vault, unless the platform owns it. Everything that the run writes
afterwards goes through `redact_draft`, `redact_text` or `redact_value`, which replace the secret by a marker.

The store keeps only a keyed digest of each secret with its run. A process that does not know all secrets of a run,
because it was started later or is another one, refuses to write for the run (`require`) until they are registered
again.

The vault also applies the operator's policy to the writes of all standards: a text that looks like a secret is let
through, reported, or replaced (`screen`).

Secrets live in memory for the time of their run and are never written. Losing them at a restart is intended: the run
cannot write until its host has registered them again.
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

# Every command creates a vault. Most have no secrets, so redaction, detection and subprocess are imported when they are
# needed.

# The owner of a secret: those of the platform are not registered with runs.
Scope = Literal["user", "tenant", "run", "platform"]
# Seconds that a command may take: a run waits for it.
COMMAND_SECONDS: Final = 10.0
# Bytes of a secret in a file or from a command.
MAX_SECRET_BYTES: Final = 65_536
# Characters of the shortest text that is screened: shorter ones are too common to be secrets.
SHORTEST_CHARS: Final = 8
# Characters of a secret's id.
_ID_CHARS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Resolved(msgspec.Struct, frozen=True):
    """The value of a secret, and its scope: the kind of owner it has."""

    value: str
    scope: Scope

    def __repr__(self) -> str:
        return f"<Resolved secret of scope {self.scope}>"


class Resolver(Protocol):
    """A source of secrets."""

    def resolve(self, secret_id: str) -> Resolved | None:
        """Return the secret with an id, or None. The id has only letters, digits, dots, hyphens and underscores."""
        ...


class EnvironmentResolver:
    """A source of secrets in environment variables, named by a prefix and the id in capitals."""

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
    """A source of secrets in the files of a folder, each named by the id of its secret."""

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
    """A source of secrets that runs a command, such as a password manager's, with the id as its last argument."""

    def __init__(self, command: Sequence[str] | str, *, scope: Scope = "user") -> None:
        self._command = shlex.split(command) if isinstance(command, str) else list(command)
        self._scope = scope

    def resolve(self, secret_id: str) -> Resolved | None:
        import subprocess

        try:
            # `Vault.resolve` checked the id: it is no option and no path.
            result = subprocess.run(  # noqa: S603
                [*self._command, secret_id],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if result.returncode != 0 or len(result.stdout) > MAX_SECRET_BYTES:
            return None
        return Resolved(result.stdout.decode("utf-8", "replace").rstrip("\r\n"), self._scope)


# The tenant and the id of a run: hosts choose the ids of their runs, so those of two tenants may be equal.
RunKey = tuple[str, str]


# Characters of all spellings of the secrets of one tenant: room for thousands of runs at once.
TENANT_CHARS_LIMIT: Final = 4 * 1_048_576
# Characters of the secrets of all tenants.
ALL_CHARS_LIMIT: Final = 32 * 1_048_576


class Vault:
    """The secrets of the runs of this process, and the policy for texts that look like a secret."""

    def __init__(
        self, resolvers: Sequence[Resolver] = (), *, policy: Policy = "off", is_alone: bool = True
    ) -> None:
        # With several serving processes, the next request of a run may come to one that does not know its secrets.
        self._is_alone = is_alone
        self._resolvers = tuple(resolvers)
        self._runs: dict[RunKey, Secrets] = {}
        # Characters of the secrets of each run, by tenant.
        self._sizes: FairShares[RunKey] = FairShares()
        self._digests: dict[RunKey, set[str]] = {}
        self._lock = threading.Lock()
        self.policy = policy

    def resolve(self, secret_id: str) -> Resolved:
        """Return a secret from the first resolver that has it. Raises NotFound, or InvalidInput for a malformed id."""
        if (
            not secret_id
            or len(secret_id) > 128
            or not _ID_CHARS.issuperset(secret_id)
            or secret_id[0] in ".-"
        ):
            raise InvalidInput("a secret's id has letters, digits, dots, hyphens and underscores")
        for resolver in self._resolvers:
            secret = resolver.resolve(secret_id)
            if secret is not None:
                return secret
        raise NotFound(f"no secret {secret_id}")

    def register(self, run: RunKey, secret_id: str, value: str, digest: str = "") -> bool:
        """Register a value that a run must never store. Return False if it is too short to be recognised in a text.

        `digest` is the keyed digest that the store keeps with the run. Raises Unsupported with several processes.
        """
        from memoranda.standards.openwop.redaction import Secrets

        if not self._is_alone:
            raise Unsupported(
                "secrets of runs are known to one process only; serve with one worker"
            )
        with self._lock:
            run_secrets = self._runs.setdefault(run, Secrets())
            is_registered = run_secrets.register(secret_id, value)
            if is_registered and digest:
                self._digests.setdefault(run, set()).add(digest)
            self._sizes.put(run, run[0], run_secrets.size_chars)
            self._make_room(run)
            return is_registered

    def _make_room(self, run: RunKey) -> None:
        """Forget the secrets of other runs until both limits hold; those runs must register them before they write."""
        tenant = run[0]
        while self._sizes.weight_of(tenant) > TENANT_CHARS_LIMIT:
            oldest = self._sizes.oldest_of(tenant)
            if oldest is None or oldest == run:
                break
            self._forget(oldest)
        while self._sizes.total > ALL_CHARS_LIMIT:
            evicted = self._sizes.evict(lambda other: other != run)
            if evicted is None:
                break
            self._forget(evicted)

    def require(self, run: RunKey, digests: Collection[str]) -> None:
        """Raise Conflict unless this process knows every secret that a run resolved, by their digests."""
        with self._lock:
            unknown = set(digests) - self._digests.get(run, set())
        if unknown:
            raise Conflict(
                f"the run resolved {len(unknown)} secret(s) that this process does not know; register them again first"
            )

    def end(self, run: RunKey) -> None:
        """Forget the secrets of a run that has ended."""
        with self._lock:
            self._forget(run)

    def _forget(self, run: RunKey) -> None:
        run_secrets = self._runs.pop(run, None)
        if run_secrets is not None:
            run_secrets.clear()
        self._digests.pop(run, None)
        self._sizes.remove(run)

    def redact_draft(self, draft: Draft, run: RunKey | None) -> Draft:
        """Return an entry without the run's secrets in content and tags; markers of other hosts become ours."""
        from memoranda.standards.openwop.entry import MAX_TAG_CHARS

        tags = []
        for tag in draft.tags:
            clean = self.redact_text(tag, run, "tags")
            # A tag that its marker makes too long is left out: shortened, the marker would not be recognised.
            if clean == tag or len(clean) <= MAX_TAG_CHARS:
                tags.append(clean)
        content = self.redact_text(draft.content, run, "content")
        return draft.replace_fields(content=content, tags=tuple(tags))

    def redact_text(self, text: str, run: RunKey | None, location: str) -> str:
        """Return a text without the run's secrets, as the policy lets it pass.

        `location` names the field in notices.
        """
        from memoranda.standards.openwop.redaction import convert_markers

        with self._lock:
            run_secrets = None if run is None else self._runs.get(run)
            clean = text if run_secrets is None else run_secrets.redact(text).text
        # After redaction: converting a marker that contains the secret would change its spelling, and so hide it.
        return self.screen(convert_markers(clean), location)

    def contains_secret(self, text: str, run: RunKey) -> bool:
        """Return True if a secret of a run occurs in a text that cannot be redacted, such as a name."""
        with self._lock:
            run_secrets = self._runs.get(run)
            return run_secrets is not None and run_secrets.occurs_in(text)

    def redact_value(self, value: object, run: RunKey) -> Any:
        """Return a JSON value without the run's secrets in any of its strings."""
        if isinstance(value, str):
            return self.redact_text(value, run, "run")
        if isinstance(value, Mapping):
            return {
                self.redact_value(name, run): self.redact_value(item, run)
                for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.redact_value(item, run) for item in value]
        return value

    def screen(self, text: str, location: str) -> str:
        """Return a text as the policy lets it pass. A notice names the kinds of likely secrets, never their values."""
        if self.policy == "off" or len(text) < SHORTEST_CHARS:
            return text
        from memoranda.encoding.detection import screen

        clean, findings = screen(text, self.policy)
        if findings:
            is_redacted = self.policy == "redact"
            notify(location, [finding.kind for finding in findings], is_redacted=is_redacted)
        return clean
