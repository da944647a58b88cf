"""A real network in trouble: cut in two, or losing and delaying packets, between namespaces."""

from __future__ import annotations

import time
from pathlib import Path

from peer_processes import PeerProcess, Swarm, eventually, lay_out_swarm, network
from routers import Router

PORT = 7300


def lay_out_apart(folder: Path, router: Router, count: int, **settings: object) -> Swarm:
    """Return a swarm in which every peer has a network of its own."""
    swarm = lay_out_swarm(folder, count, **settings)
    addresses = [f"{router.address(number)}:{PORT}" for number in range(count)]
    for number, peer in enumerate(swarm.peers):
        peer.namespace = router.namespace(number)
        known = [address for address in addresses[:2] if address != addresses[number]]
        peer.change(listen=addresses[number], known=known)
    return swarm


def across(swarm: Swarm) -> list[tuple[PeerProcess, PeerProcess]]:
    """Return all pairs of different halves."""
    return [
        (peer, other)
        for place, peer in enumerate(swarm.peers)
        for far, other in enumerate(swarm.peers)
        if place % 2 != far % 2
    ]


def test_a_cut_between_two_halves(tmp_path, is_full, seen):
    count, cut_seconds, every_seconds = (8, 60.0, 2.0) if is_full else (4, 10.0, 2.0)
    calm = {"every_seconds": every_seconds}
    settings = network(fetch_seconds=2, call_seconds=2, connect_seconds=2)
    with (
        Router(count) as router,
        lay_out_apart(tmp_path, router, count, settings=calm, **settings) as swarm,
    ):
        swarm.start()
        for peer, other in across(swarm):
            eventually(
                lambda peer=peer, other=other: peer.round > 0 and peer.has_fetched(other),
                "everybody learns from everybody",
            )
        router.is_cut = lambda source, target: source % 2 != target % 2
        cut_at = time.monotonic()
        begin = [peer.round for peer in swarm.peers]
        eventually(
            lambda: all(peer.status.num_known == count // 2 - 1 for peer in swarm.peers),
            "the halves lose sight of each other",
        )
        eventually(lambda: time.monotonic() - cut_at > cut_seconds, "time passes", 2 * cut_seconds)
        assert sum(router.cut.values()) > 0
        healed = [peer.round for peer in swarm.peers]
        assert all(now > before + 2 for now, before in zip(healed, begin, strict=True))
        router.is_cut = lambda source, target: False
        healed_at = time.monotonic()
        took = []
        for peer, other in across(swarm):
            since = healed[swarm.peers.index(peer)]
            eventually(
                lambda peer=peer, other=other, since=since: peer.has_fetched(other, since + 1),
                "cross-traffic is back",
            )
            first = next(row for row in peer.fetches(other, since + 1) if row["delivered"])
            took.append(first["round"] - since - 1)  # the round that was running does not count
        seconds = time.monotonic() - healed_at
        halves = [
            (peer, other)
            for peer, other in across(swarm)
            if any(
                row["delivered"]
                and begin[swarm.peers.index(peer)] + 3 < row["round"]
                and row["round"] < healed[swarm.peers.index(peer)]
                for row in peer.fetches(other)
            )
        ]
        assert not halves, "nothing came across meanwhile"
        first_back = max(
            min(took[place] for place, pair in enumerate(across(swarm)) if pair[0] is peer)
            for peer in swarm.peers
        )
        seen.update(
            peers=count,
            cut_seconds=cut_seconds,
            packets_cut=sum(router.cut.values()),
            rounds_meanwhile=min(a - b for a, b in zip(healed, begin, strict=True)),
            slowest_round_seconds=max(max(peer.seconds(1)) for peer in swarm.peers),
            rounds_until_every_peer_has_cross_traffic=first_back,
            rounds_until_all_pairs_are_back=max(took),
            seconds_until_all_pairs_are_back=round(seconds, 1),
        )
        assert first_back <= 2


def test_packets_that_are_lost_and_late(tmp_path, is_full, seen):
    count, num_rounds = (6, 10) if is_full else (2, 2)
    calm = {"every_seconds": 1.0}
    settings = network(fetch_seconds=30, call_seconds=30, connect_seconds=30)
    with (
        Router(count) as router,
        lay_out_apart(tmp_path, router, count, settings=calm, **settings) as swarm,
    ):
        router.loss, router.delay_seconds = 0.2, 0.2
        swarm.start()
        for peer in swarm.peers:
            others = [other for other in swarm.peers if other is not peer]
            eventually(
                lambda peer=peer, others=others: (
                    peer.round >= num_rounds and all(peer.has_fetched(other) for other in others)
                ),
                "models arrive all the same",
                300,
            )
        lost, passed = sum(router.lost.values()), sum(router.passed.values())
        assert 0.1 < lost / (lost + passed) < 0.3
        rows = [
            row for peer in swarm.peers for row in peer.table("exchanges") if row["kind"] == "fetch"
        ]
        took = [row["seconds"] for peer in swarm.peers for row in peer.table("arrivals")]
        assert min(took) > router.delay_seconds
        seen.update(
            peers=count,
            packets_lost=lost,
            packets_passed=passed,
            fetches=len(rows),
            fetches_delivered=sum(row["delivered"] for row in rows),
            slowest_fetch_seconds=round(max(took), 2),
            median_fetch_seconds=round(sorted(took)[len(took) // 2], 2),
        )
