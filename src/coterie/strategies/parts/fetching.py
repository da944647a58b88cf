"""Fetching without asking twice, which any strategy that compares before it merges may use."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

from coterie.strategies.requests import Fetch, Offer, PeerId, Request


def fetch_missing(
    peers: Iterable[PeerId], held: Sequence[Offer]
) -> Generator[Request, Any, list[Offer]]:
    """Return offers of the peers, in their order; asks only those I hold none of this round."""
    offers = {offer.peer: offer for offer in held}
    wanted = tuple(peers)
    missing = tuple(peer for peer in wanted if peer not in offers)
    if missing:
        offers |= {offer.peer: offer for offer in (yield Fetch(missing))}
    return [offers[peer] for peer in wanted if peer in offers]
