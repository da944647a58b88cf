"""Peers whose models nobody ever took, counted by hand."""

from __future__ import annotations

import math

from recorded_tables import recorded, where

from coterie.results.analyses.unfetched import never_fetched, unfetched_at_the_end

METRICS = recorded(
    "metrics",
    [
        {"round": number, "peer": peer, "cluster": peer % 2}
        for number in range(4)
        for peer in range(4)
    ],
)


def sent(number, sender, kind="fetch", delivered=True):
    return {
        "round": number,
        "receiver": (sender + 1) % 4,
        "sender": sender,
        "kind": kind,
        "delivered": delivered,
    }


def test_share_so_far():
    exchanges = recorded(
        "exchanges",
        [
            sent(1, 0),
            sent(1, 2, "probe"),
            sent(1, 3, delivered=False),
            sent(3, 1, "push"),
            sent(3, 0),
            sent(3, 2),
        ],
    )
    detail = never_fetched(exchanges, METRICS)
    shares = [where(detail, round=n, cluster="all")["share_never_fetched"] for n in (1, 2, 3)]
    assert shares == [0.75, 0.75, 0.25]
    assert where(detail, round=3, cluster="0")["num_never_fetched"] == 0
    assert where(detail, round=3, cluster="1")["share_never_fetched"] == 0.5
    (summary,) = unfetched_at_the_end(detail, 10).to_pylist()
    assert summary["share_never_fetched"] == 0.25
    assert math.isnan(summary["all_fetched_by_round"])


def test_the_round_by_which_everybody_was_fetched():
    exchanges = recorded("exchanges", [sent(1, 0), sent(2, 1), sent(2, 2), sent(2, 3), sent(3, 0)])
    (summary,) = unfetched_at_the_end(never_fetched(exchanges, METRICS), 10).to_pylist()
    assert summary == {"share_never_fetched": 0.0, "all_fetched_by_round": 2.0}


def test_where_nobody_fetches_there_is_nothing_to_say():
    server = recorded("exchanges", [sent(1, 0, "upload"), sent(1, 0, "probe")])
    assert never_fetched(server, METRICS).num_rows == 0
