"""What is shown of a swarm: a table on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import json
from dataclasses import asdict

import pytest
from recorded_peers import NUM_PEERS, small_run
from rich.console import Console

from coterie.cli import swarm_progress
from coterie.cli.swarm_progress import SwarmProgress
from coterie.errors import TrainingError
from coterie.experiments.run_folder import RunFolder
from coterie.peer.peer_run import STATUS, PeerStatus
from coterie.swarm.peer_folders import peer_folders
from coterie.swarm.supervisor import SwarmPeer
from coterie.tasks.score import MSE


@pytest.fixture
def run(tmp_path) -> RunFolder:
    return small_run(tmp_path / "random-seed0")[0]


@pytest.fixture
def peers(run) -> list[SwarmPeer]:
    folders = peer_folders(run.folder, NUM_PEERS)
    for folder in folders:
        folder.mkdir(parents=True)
    return [SwarmPeer(number, folder) for number, folder in enumerate(folders)]


def say(peer: SwarmPeer, **what: object) -> None:
    status = PeerStatus(peer.name, "id", 1, rounds=9, **what)
    (peer.folder / STATUS).write_text(json.dumps(asdict(status)))


def shown(run, peers, *, terminal: bool, runs=None, height=20) -> str:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=terminal, width=100, height=height, color_system=None
    )
    with SwarmProgress(runs or [run], console) as display:
        display.show(run, peers)
    return out.getvalue()


def test_every_peer_has_a_line_on_a_terminal(run, peers):
    say(
        peers[0],
        state="running",
        round=3,
        validation_score=0.5,
        num_fetched=2,
        num_known=11,
        refused={"unknown": 4, "busy": 1},
        failures={"unreachable": 7},
    )
    say(peers[1], state="running", round=4, validation_score=0.7)
    peers[1].num_restarts = 2
    peers[2].error = TrainingError("diverged")
    text = shown(run, peers, terminal=True)
    assert "random-seed0: 3 peers in rounds 3 to 4 of 9, validation accuracy 60.0%" in text
    lines = {
        line.split()[0]: line.split() for line in text.splitlines() if line.startswith("peer-")
    }
    assert lines["peer-000"] == ["peer-000", "running", "3", "50.0%", "2", "11", "5", "7"]
    assert lines["peer-001"][1:6] == ["running,", "restarted", "2×", "4", "70.0%"]
    assert lines["peer-002"] == ["peer-002", "failed"]


def test_more_peers_than_the_screen_has_lines_are_counted(run, peers):
    text = shown(run, peers * 20, terminal=True, height=15)
    last_drawn = text.rpartition("peers are starting")[2]
    assert last_drawn.count("peer-00") == 10
    assert "… and 50 more" in text


def test_elsewhere_there_is_a_line_now_and_then(run, peers, monkeypatch):
    assert shown(run, peers, terminal=False) == ""
    monkeypatch.setattr(swarm_progress, "LINE_SECONDS", 0.0)
    assert shown(run, peers, terminal=False) == "random-seed0: 3 peers are starting\n"
    for peer in peers:
        say(peer, state="running", round=2, validation_loss=1.0)
    text = shown(run, peers, terminal=False, runs=[run, run])
    assert text == "random-seed0: 3 peers in round 2 of 9, 0 of 2 runs done\n"


def test_the_estimate_counts_from_what_this_session_has_done(run, peers, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(swarm_progress.time, "monotonic", lambda: clock[0])
    out = io.StringIO()
    with SwarmProgress([run], Console(file=out, force_terminal=False, width=200)) as display:
        for number, now in ((4, 200.0), (6, 220.0)):
            for peer in peers:
                say(peer, state="running", round=number, validation_score=0.5)
            clock[0] = now
            display.show(run, peers)
    first, second = out.getvalue().splitlines()
    assert "left" not in first
    # Two of ten rounds in 20 s, three are left.
    assert second.endswith("about 30 s left")


def test_errors_are_shown_where_there_are_no_classes(run, peers):
    say(peers[0], state="finished", round=9, validation_score=1.23456, score=MSE)
    text = shown(run, peers, terminal=True)
    assert "validation MSE 1.235" in text
    assert "123" not in text
