"""What the serving and the asking side of one peer have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from coterie.models.layout import Layout
from coterie.peer.discovery.address_book import AddressBook
from coterie.peer.refusals import RefusalCounts
from coterie.peer.security.identity import Identity
from coterie.peer.security.trust import TrustStore
from coterie.peer.transport.payload_cache import PayloadCache
from coterie.peer.transport.traffic import Traffic
from coterie.peer.transport_settings import TransportSettings
from coterie.peer.wire.payload import Encoding
from coterie.peer.wire.payload_decoder import DecoderLimits
from coterie.strategies.strategy import Range


@dataclass
class PeerContext:
    """One peer as the network sees it."""

    identity: Identity
    trust: TrustStore
    address_book: AddressBook
    layout: Layout
    settings: TransportSettings = field(default_factory=TransportSettings)
    refused: RefusalCounts = field(default_factory=RefusalCounts)
    """What I refused: what others asked of me, and what they sent."""
    failures: RefusalCounts = field(default_factory=lambda: RefusalCounts("not got"))
    """What I did not get: others refused it, or were not there in time."""
    traffic: Traffic = field(default_factory=Traffic)
    told_range: Range = (-math.inf, math.inf)
    """What the numbers lie between that my strategy can be told."""
    table_ranges: Mapping[str, Range] = field(default_factory=dict)
    """The tables of others' messages that my strategy reads, and what their numbers lie between."""

    def __post_init__(self) -> None:
        self.payload_cache = PayloadCache(self.layout, self.encodings, self.table_ranges)

    @property
    def encodings(self) -> frozenset[Encoding]:
        """Return what I am willing to send and to read."""
        rounds = self.settings.precision == "bfloat16"
        compresses = self.settings.compression == "zstd"
        return frozenset(
            encoding
            for encoding in Encoding
            if (rounds or encoding.dtype == "F32") and (compresses or not encoding.is_compressed)
        )

    @property
    def decoder_limits(self) -> DecoderLimits:
        """Return what a model from outside may be."""
        return DecoderLimits(
            self.settings.limits.largest_message_bytes, table_ranges=self.table_ranges
        )
