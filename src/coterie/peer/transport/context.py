"""The state that the serving and the calling side of one peer share."""

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
from coterie.strategies.requests import Range


@dataclass
class PeerContext:
    """One peer's identity, address book, settings and counters, as its network code needs them."""

    identity: Identity
    trust: TrustStore
    address_book: AddressBook
    layout: Layout
    settings: TransportSettings = field(default_factory=TransportSettings)
    refused: RefusalCounts = field(default_factory=RefusalCounts)
    """What this peer refused: calls of others, and data that they sent."""
    failures: RefusalCounts = field(default_factory=lambda: RefusalCounts("not got"))
    """What this peer did not receive: others refused it or did not answer in time."""
    traffic: Traffic = field(default_factory=Traffic)
    report_range: Range = (-math.inf, math.inf)
    """The range of the reports that the strategy accepts."""
    table_ranges: Mapping[str, Range] = field(default_factory=dict)
    """The tables that the strategy reads in messages, with the range of their values."""
    frozen_digest: str = ""
    """The digest of the model's frozen part; empty if nothing is frozen."""

    def __post_init__(self) -> None:
        self.payload_cache = PayloadCache(self.layout, self.encodings, self.table_ranges)

    @property
    def encodings(self) -> frozenset[Encoding]:
        """Return the encodings that this peer sends and reads."""
        rounds = self.settings.precision == "bfloat16"
        compresses = self.settings.compression == "zstd"
        return frozenset(
            encoding
            for encoding in Encoding
            if (rounds or encoding.dtype == "F32") and (compresses or not encoding.is_compressed)
        )

    @property
    def decoder_limits(self) -> DecoderLimits:
        """Return the limits for models from outside."""
        return DecoderLimits(
            self.settings.limits.largest_message_bytes, table_ranges=self.table_ranges
        )
