"""Reads a play: each speaking role is a peer, and the task is to predict the next character."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.data.own_files.owned_samples import OwnedSamples, Rows, count_of
from coterie.data.own_files.settings import PlayText
from coterie.data.sources import explain_read_errors
from coterie.errors import DataError

ENDS_OF_PARTS = (0.6, 0.8, 1.0)
"""Where training, validation and test end in what a role says: the test is the end of the play."""


@lru_cache(maxsize=1)
def read_play(path: Path, digest: str, settings: PlayText) -> OwnedSamples:
    """Return windows of characters as numbers, and the character after each.

    The last text is kept, because several runs use it; the digest tells whether it has changed.
    """
    with explain_read_errors(path, "a play as UTF-8 text"):
        spoken = _speeches(path.read_text(encoding="utf-8"))
    texts = {role: text for role, text in sorted(spoken.items()) if _is_long(text, settings)}
    if not texts:
        raise DataError(
            f"{path} has no role with {settings.min_characters:,} characters. Expected lines that "
            "end in a colon, such as 'First Citizen:', before what each role says."
        )
    characters = sorted({character for text in texts.values() for character in text})
    numbers = {character: number for number, character in enumerate(characters)}
    inputs, targets, parts, owners = [], [], [], []
    for owner, text in enumerate(texts.values()):
        for part, tokens in enumerate(_in_parts([numbers[character] for character in text])):
            windows = np.lib.stride_tricks.sliding_window_view(tokens, settings.length + 1)
            chosen = windows[:: settings.stride]
            inputs.append(chosen[:, :-1])
            targets.append(chosen[:, -1])
            parts.append(np.full(len(chosen), part))
            owners.append(np.full(len(chosen), owner))
    left_out = len(spoken) - len(texts)
    note = f"{count_of(left_out, 'role')} with fewer than {settings.min_characters:,} characters"
    return OwnedSamples(
        where=str(path),
        inputs=np.concatenate(inputs),
        targets=np.concatenate(targets),
        classes=tuple(characters),
        owners=np.concatenate(owners),
        peer_names=tuple(texts),
        parts=np.concatenate(parts),
        notes=(f"{note} left out.",) if left_out else (),
    )


def _speeches(play: str) -> dict[str, str]:
    """Return all that each role says, in the order of the play."""
    spoken: dict[str, list[str]] = {}
    for speech in play.split("\n\n"):
        role, _, text = speech.strip("\n").partition("\n")
        # A colon may also end a line of a speech, but not the first line after an empty one.
        if role.endswith(":"):
            spoken.setdefault(role.removesuffix(":"), []).append(f"{text}\n")
    return {role: "".join(speeches) for role, speeches in spoken.items()}


def _is_long(text: str, settings: PlayText) -> bool:
    # Each part must have at least one window.
    return len(text) >= max(settings.min_characters, 10 * (settings.length + 1))


def _in_parts(tokens: Sequence[int]) -> list[Rows]:
    """Return the tokens for training, validation and test, one after another."""
    ends = [round(len(tokens) * end) for end in ENDS_OF_PARTS]
    every: npt.NDArray[np.int64] = np.array(tokens, dtype=np.int64)
    return np.split(every, ends[:-1])
