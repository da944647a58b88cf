"""Speaking roles are peers, who predict the next character of what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coterie.data.own_files.load import load_own_files
from coterie.data.own_files.settings import PlayText
from coterie.errors import DataError

SPEECH = {"ANN": "What is this:\nit is rain.\n", "BOB": "No.\n"}


def write_play(path: Path, num_speeches: int = 20) -> Path:
    speeches = [f"{role}:\n{text}" for _ in range(num_speeches) for role, text in SPEECH.items()]
    path.write_text("\n".join([*speeches, "CEE:\nHm.\n"]))
    return path


def test_a_role_has_windows_of_its_own_characters(tmp_path):
    path = write_play(tmp_path / "play.txt")
    settings = PlayText(path=path, length=4, stride=2, min_characters=100)
    peers = load_own_files(settings, None, rounds=0, seed=0)
    assert peers.peer_names == ("ANN",)
    assert peers.notes == ("2 roles with fewer than 100 characters left out.",)
    assert peers.classes == tuple(sorted(set(SPEECH["ANN"])))
    pool, (view,) = peers.pools[0], peers.load_step(0)
    assert pool.inputs.dtype == np.int64
    said = SPEECH["ANN"] * 20
    for part, ends in zip(
        (view.train, view.validation, view.test), ((0, 0.6), (0.6, 0.8), (0.8, 1)), strict=True
    ):
        text = said[round(ends[0] * len(said)) : round(ends[1] * len(said))]
        rows = part.rows()
        assert len(rows) == len(range(0, len(text) - 4, 2))
        for place, row in enumerate(rows):
            shown = "".join(peers.classes[token] for token in pool.inputs[row])
            assert shown == text[2 * place : 2 * place + 4]
            assert peers.classes[pool.targets[row]] == text[2 * place + 4]


def test_a_text_without_roles_is_refused(tmp_path):
    path = tmp_path / "play.txt"
    path.write_text("No colon at all.\n" * 1000)
    with pytest.raises(DataError, match="no role with 10,000 characters"):
        load_own_files(PlayText(path=path), None, rounds=0, seed=0)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="UTF-8"):
        load_own_files(PlayText(path=path), None, rounds=0, seed=0)
