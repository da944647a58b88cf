"""Which peers belong to which shard."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coterie.errors import ConfigError


@dataclass(frozen=True)
class ShardPlan:
    """Divides K peers into shards of consecutive numbers, whose sizes differ by at most one."""

    num_peers: int
    num_shards: int

    def __post_init__(self) -> None:
        if not 1 <= self.num_shards <= self.num_peers:
            raise ConfigError(
                f"{self.num_shards} shards for {self.num_peers} peers: use at least 1, and at most "
                "one for each peer."
            )

    @cached_property
    def _bounds(self) -> list[int]:
        shards = range(self.num_shards + 1)
        return [place * self.num_peers // self.num_shards for place in shards]

    def numbers(self, shard: int) -> range:
        """Return the numbers of a shard's peers."""
        return range(self._bounds[shard], self._bounds[shard + 1])

    def shard_of(self, number: int) -> int:
        """Return the shard of a peer."""
        return int(np.searchsorted(self._bounds, number, side="right")) - 1
