"""Learning with a language model: batches of turns, what came of them, and where to continue.

The position in each session is stored after each batch, so an interrupted run continues there, and no turn is paid for
twice. After a failure the model is not asked again in this run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from memoranda.bindings.files.folder import read_file, replace_file
from memoranda.consolidation.learning.model import BATCH_CHARS, ModelReader, SpokenTurn
from memoranda.encoding.json_text import dump, parse
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.hosts.learning import Learner
from memoranda.hosts.source_turns import SourceTurn

STATE_FILE: Final = "learned.json"
# Bytes of the stored positions: some hundred thousand sessions.
_STATE_BYTES_LIMIT: Final = 64 * 1_048_576
_MODE: Final = 0o600
# Tokens to which a price refers.
_PRICED_TOKENS: Final = 1_000_000
Turns = Sequence[tuple[SourceTurn, bool]]


def parse_prices(text: str) -> tuple[float, float] | None:
    """Return the prices of a million input and output tokens in a text such as `0.25/2`. Raises InvalidInput."""
    if not text:
        return None
    parts = text.split("/")
    try:
        prices = tuple(float(part) for part in parts)
    except ValueError:
        prices = ()
    if len(prices) != 2 or not all(0 <= price < 1e6 for price in prices):
        raise InvalidInput(
            "learner_prices: write the prices of a million tokens as INPUT/OUTPUT, such as 0.25/2"
        )
    return prices[0], prices[1]


class ModelLearner:
    """Asks a model about the turns of sessions, each once."""

    def __init__(
        self,
        learner: Learner,
        reader: ModelReader,
        *,
        state: Path,
        prices: tuple[float, float] | None = None,
    ) -> None:
        self._learner, self._reader = learner, reader
        self._state, self._prices = state, prices
        self._positions = _load_positions(state)
        self._unsupported = 0
        self._requests = 0
        # The reason why the model is not asked any more; empty if it is.
        self.problem = ""

    def learn(self, turns: Turns) -> None:
        """Propose what the model finds in the turns of one session that it was not asked about."""
        if self.problem or not turns:
            return
        key = _session_key(self._learner.owner, turns[0][0])
        read_keys = set(self._positions.get(key, ()))
        unread_turns = [pair for pair in turns if _turn_key(pair[0]) not in read_keys]
        for batch in _split_batches(unread_turns):
            if any(is_person for _, is_person in batch):
                try:
                    self._read_batch(batch)
                except InvalidInput as error:
                    self.problem = error.message
                    return
            read_keys.update(_turn_key(turn) for turn, _ in batch)
            self._positions[key] = sorted(read_keys)
            replace_file(self._state, dump(self._positions), mode=_MODE)

    def _read_batch(self, batch: Turns) -> None:
        spoken = [SpokenTurn(turn.text, is_person) for turn, is_person in batch]
        self._requests += 1
        answer = self._reader.read(spoken)
        self._unsupported += answer.unsupported
        for index, statement in answer.statements:
            turn = batch[index][0]
            self._learner.report.count(self._learner.propose(statement, turn, "model"))

    @property
    def cost(self) -> float | None:
        """The cost of the tokens so far; None without prices."""
        if self._prices is None:
            return None
        tokens = (self._reader.input_tokens, self._reader.output_tokens)
        costs = (count * price for count, price in zip(tokens, self._prices, strict=True))
        return round(sum(costs) / _PRICED_TOKENS, 6)

    def document(self) -> dict[str, object]:
        """Return the counts as JSON."""
        return {
            "requests": self._requests,
            "input_tokens": self._reader.input_tokens,
            "output_tokens": self._reader.output_tokens,
            "cost": self.cost,
            "unsupported": self._unsupported,
            "problem": self.problem or None,
        }

    def describe(self) -> str:
        """Return the counts in one line."""
        cost = "" if self.cost is None else f", cost {self.cost:.4f}"
        return (
            f"model: {self._requests} requests, {self._reader.input_tokens} tokens in, "
            f"{self._reader.output_tokens} out{cost}; {self._unsupported} statements without support dropped"
        )


def _split_batches(turns: Turns) -> Iterator[list[tuple[SourceTurn, bool]]]:
    """Yield turns in batches of at most BATCH_CHARS characters, each of at least one turn."""
    batch: list[tuple[SourceTurn, bool]] = []
    chars = 0
    for pair in turns:
        if batch and chars + len(pair[0].text) > BATCH_CHARS:
            yield batch
            batch, chars = [], 0
        batch.append(pair)
        chars += len(pair[0].text)
    if batch:
        yield batch


def _session_key(owner: str, turn: SourceTurn) -> str:
    return _hash(owner, turn.agent, turn.session)


def _turn_key(turn: SourceTurn) -> str:
    return _hash(turn.id, turn.text)


def _hash(*parts: str) -> str:
    text = "\x00".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16]


def _load_positions(path: Path) -> dict[str, list[str]]:
    """Return the turns that were read, by session; nothing if the file is missing or damaged."""
    try:
        document = parse(
            read_file(path, max_bytes=_STATE_BYTES_LIMIT), max_bytes=_STATE_BYTES_LIMIT
        )
    except MemorandaError:
        return {}
    fields: Mapping[str, object] = document if isinstance(document, dict) else {}
    return {
        name: [key for key in keys if isinstance(key, str)]
        for name, keys in fields.items()
        if isinstance(keys, list)
    }
