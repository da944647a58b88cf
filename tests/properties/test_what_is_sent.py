"""What a strategy says is never what a peer of the same strategy would refuse to hear."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import PEER_STRATEGIES, Watch, few, networks
from payloads import SMALL, announced, bytes_of, decode

from coterie.peer.wire.model import Model, Part
from coterie.peer.wire.payload import Encoding, encode
from coterie.peer.wire.payload_decoder import DecoderLimits
from coterie.strategies import STRATEGIES
from coterie.strategies.requests import PEERS, Report
from coterie.strategies.strategy import Strategy

MESSAGE = frozenset({Part.MESSAGE})


@pytest.mark.parametrize("name", PEER_STRATEGIES)
@few(7)
@given(st.data())
def test_own_messages_and_numbers_are_accepted(name, data):
    watch = Watch(data.draw(networks([name])))
    for _ in watch.rounds():
        for strategy in watch.strategies:
            _send(strategy)
    low, high = watch.strategies[0].report_range
    told = [each.request for each in watch.asked if isinstance(each.request, Report)]
    assert all(low <= value <= high for request in told for value in request.values.values())


def _send(strategy: Strategy) -> None:
    """Make a payload of a message, and take it in again."""
    message = dict(strategy.message())
    if PEERS in message:
        ids = [int(number).to_bytes(32, "big") for number in message[PEERS]]
        message[PEERS] = np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 32)
    sent = encode(Model({}, message), SMALL, MESSAGE, Encoding.FLOAT32, strategy.table_ranges)
    limits = DecoderLimits(table_ranges=strategy.table_ranges)
    data = bytes_of(sent)
    taken = decode(data, announced(data, MESSAGE), limits=limits, chunk_bytes=2**20)
    assert taken.message.keys() == message.keys()
    for key, array in message.items():
        assert np.array_equal(taken.message[key], array)


def test_the_tables_that_travel_have_their_ranges():
    """A strategy that sends a table says what it may hold: otherwise nothing is checked."""
    ranges = {name: STRATEGIES[name].table_ranges for name in PEER_STRATEGIES}
    assert {name: set(tables) for name, tables in ranges.items() if tables} == {
        "dac": {"similarities"},
        "hast": {"similarities"},
        "kin": {"verdicts"},
    }
    for name in PEER_STRATEGIES:
        sent = set(STRATEGIES[name]().message())
        assert sent == ({PEERS, *ranges[name]} if ranges[name] else set()), name
