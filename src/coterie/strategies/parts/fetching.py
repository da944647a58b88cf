"""Fetch models without asking twice in a round, for strategies that compare before they merge."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

from coterie.strategies.requests import Fetch, Offer, PeerId, Request


def fetch_missing(
    peers: Iterable[PeerId], held: Sequence[Offer]
) -> Generator[Request, Any, list[Offer]]:
    """Fetch from those peers that made no offer yet in this round.

    Parameters
    ----------
    peers
        The peers whose offers are wanted.
    held
        Offers that this round already brought.

    Returns
    -------
    list of Offer
        The offers of `peers`, in their order; peers that did not answer are missing.

    Examples
    --------
    >>> from coterie.strategies import Offer
    >>> plan = fetch_missing((3, 1), held=[Offer(1, num_samples=10, message={})])
    >>> next(plan)
    Fetch(peers=(3,))
    """
    offers = {offer.peer: offer for offer in held}
    wanted = tuple(peers)
    missing = tuple(peer for peer in wanted if peer not in offers)
    if missing:
        offers |= {offer.peer: offer for offer in (yield Fetch(missing))}
    return [offers[peer] for peer in wanted if peer in offers]
