"""Peers that die, freeze or are asked to end, in the middle of what they do; the others go on."""

from __future__ import annotations

import re
import signal

import numpy as np
import pytest
from harmed_peers import SAVE, TRAIN
from peer_processes import PeerProcess, eventually, lay_out_swarm, network

from coterie.peer.peer_run import RUN
from coterie.runtime.checkpoints import Checkpoints


def resumed_after(peer: PeerProcess) -> int:
    """Return after which round a peer went on when it was last started."""
    return int(re.findall(r"Continuing after round (\d+)\.", peer.log)[-1])


def saved_rounds(peer: PeerProcess) -> list[int]:
    """Return after which rounds there are checkpoints, the newest last."""
    names = sorted((peer.folder / RUN / "checkpoints").glob("round-*"))
    return [int(path.name.split("-")[1]) - 1 for path in names]


def told_and_saved(peer: PeerProcess) -> set[str]:
    """Return who has told a peer something that it will hear when it is started again."""
    saved = Checkpoints(peer.folder / RUN / "checkpoints").read_newest(print)
    assert saved is not None
    return set(saved["runtime"]["told"])


def test_kill_minus_nine_of_three_of_eight_within_a_round(tmp_path, slack_seconds, seen):
    deadline, rest = 10, 0.5
    swarm = lay_out_swarm(
        tmp_path,
        8,
        strategy="dac",
        aligned=True,
        settings={"every_seconds": rest},
        **network(round_seconds=deadline),
    )
    with swarm:
        killed, others = swarm.peers[:3], swarm.peers[3:]  # also the two that all were told of
        for peer in killed:
            peer.hold(TRAIN, after=3)  # in round 3, where the others wait for them
        swarm.start()
        for peer in killed:
            peer.wait_held()
        assert [peer.round for peer in killed] == [2, 2, 2]
        for peer in killed:
            peer.signal(signal.SIGKILL)
        assert [peer.ended() for peer in killed] == [-signal.SIGKILL] * 3
        for peer in others:
            peer.wait_round(6)
        assert all(peer.status.failures.get("unreachable", 0) for peer in others)
        for peer in killed:
            peer.release()
            peer.start()
        since = max(peer.round for peer in others)
        for peer in others:
            for lost in killed:
                eventually(
                    lambda peer=peer, lost=lost: peer.has_fetched(lost, since), "it is used again"
                )
        # The round that was cut off is lost, and nothing before it.
        assert [resumed_after(peer) for peer in killed] == [2, 2, 2]
        for peer in killed:
            assert peer.status.peer_id == peer.peer_id
            eventually(
                lambda peer=peer: any(peer.has_fetched(other, since) for other in others),
                "it takes part again",
            )
        slowest = max(max(peer.seconds(1)) for peer in others)
        assert slowest <= rest + deadline + slack_seconds
        numbers = {tuple(peer.ids()).index(killed[0].peer_id) for peer in others}
        assert numbers == {1}  # the roster's, as before
        seen.update(slowest_round_seconds=slowest, deadline_seconds=deadline)


def test_a_peer_that_is_frozen_and_comes_back(tmp_path, is_full, slack_seconds, seen):
    fetch_seconds = 2
    frozen_seconds = 30 if is_full else 3 * fetch_seconds
    # Nobody waits longer for a frozen peer than for any model, however long a call may take.
    settings = network(fetch_seconds=fetch_seconds, connect_seconds=20, call_seconds=20)
    with lay_out_swarm(tmp_path, 3, **settings) as swarm:
        swarm.start()
        frozen, *others = swarm.peers
        for peer in others:
            eventually(lambda peer=peer: peer.round > 0 and peer.has_fetched(frozen), "all is well")
        frozen.signal(signal.SIGSTOP)
        first = max(peer.round for peer in others) + 1
        last_of_frozen = frozen.round
        stopped_at = eventually(lambda: others[0].round >= first and others[0].status.updated, "on")
        eventually(
            lambda: others[0].status.updated - stopped_at >= frozen_seconds, "time passes", 600
        )
        assert frozen.round <= last_of_frozen + 1
        during = [peer.round for peer in others]
        assert min(during) > first + 2, "the others went on"
        for peer in others:
            assert peer.status.failures.get("late", 0) > 0
        frozen.signal(signal.SIGCONT)
        for peer, since in zip(others, during, strict=True):
            eventually(
                lambda peer=peer, since=since: peer.has_fetched(frozen, since + 1),
                "the frozen peer is used again",
            )
        eventually(
            lambda: any(row["other_round"] >= min(during) for row in frozen.table("arrivals")),
            "it gets the models of now",
        )
        slowest = max(max(peer.seconds(1)) for peer in others)
        assert slowest <= fetch_seconds + slack_seconds
        seen.update(
            frozen_seconds=frozen_seconds,
            slowest_round_seconds=slowest,
            deadline_seconds=fetch_seconds,
            rounds_meanwhile=min(during) - first,
        )


@pytest.mark.parametrize("step", [TRAIN, SAVE])
def test_asked_to_end_while_it_trains_or_saves(tmp_path, step):
    patient = {"failures": 10_000}  # so that only a goodbye makes others drop it
    with lay_out_swarm(tmp_path, 3, strategy="kin", breaker=patient) as swarm:
        swarm.start()
        leaving, *others = swarm.peers
        for peer in swarm.peers:
            eventually(lambda peer=peer: peer.status.num_known == 2, "everybody is met")
        leaving.hold(step)
        leaving.wait_held()
        before = leaving.round
        for peer in others:  # who judge it, and tell it what they found
            since = peer.round + 2  # the round that is under way may have told it before
            eventually(
                lambda peer=peer, since=since: peer.has_fetched(leaving, since), "it is judged"
            )
        leaving.signal(signal.SIGTERM)
        eventually(lambda: "Stopping" in leaving.log, "it has heard the signal")
        assert leaving.is_alive, "what it was doing is not cut off"
        leaving.release()
        assert leaving.ended() == 0
        assert leaving.status.state == "stopped"
        last = saved_rounds(leaving)[-1]
        assert last == (before if step == SAVE else before + 1), "what it was doing is not lost"
        assert f"Stopped after round {last}, which is saved." in leaving.log
        if step == TRAIN:
            assert told_and_saved(leaving) == {peer.peer_id for peer in others}
        for peer in others:
            eventually(lambda peer=peer: peer.status.num_known == 1, "the others drop it")
        leaving.start()
        leaving.wait_round(last + 1)
        assert resumed_after(leaving) == last
        for peer in others:
            eventually(lambda peer=peer: peer.status.num_known == 2, "they know it again")


def test_the_newest_checkpoint_is_damaged(tmp_path):
    with lay_out_swarm(tmp_path, 2) as swarm:
        swarm.start()
        peer, _ = swarm.peers
        peer.wait_round(2)
        peer.signal(signal.SIGKILL)
        peer.ended()
        before, newest = saved_rounds(peer)
        path = max((peer.folder / RUN / "checkpoints").glob("round-*"))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        peer.start()
        peer.wait_round(newest + 1)
        assert f"{path} is damaged (its checksum is wrong); trying the one before." in peer.log
        assert resumed_after(peer) == before == newest - 1
        assert peer.end() == 0
        rounds = [row["round"] for row in peer.table("timings")]
        assert rounds == list(range(len(rounds))), "each round is recorded once"
        told: list[str] = []
        saved = Checkpoints(peer.folder / RUN / "checkpoints").read_newest(told.append)
        assert not told
        assert np.isfinite(saved["state"]["current"]).all()
