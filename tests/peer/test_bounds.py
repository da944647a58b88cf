"""The table of bounds names every field of the protocol, and what honest peers say lies within."""

from __future__ import annotations

import math

import numpy as np
import pytest
from extremes import ALL_KINDS

from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire import protocol_pb2 as wire
from coterie.peer.wire.field_bounds import BOUNDS, LARGEST_ROUND, LARGEST_SAMPLES, Unchecked
from coterie.peer.wire.methods import parse
from coterie.peer.wire.strategy_tables import require_tables
from coterie.runtime.run_tables import SCHEMAS

IDS = np.arange(96, dtype=np.uint8).reshape(3, 32)
GOOD = np.array([0.0, 0.5, 1.0])
RANGES = {"verdicts": (0.0, 1.0)}


def test_every_field_has_its_bounds_and_no_other():
    fields = {
        name: {field.name for field in kind.fields}
        for name, kind in wire.DESCRIPTOR.message_types_by_name.items()
    }
    assert fields.keys() == ALL_KINDS
    assert {name: set(rules) for name, rules in BOUNDS.items()} == fields
    for name, rules in BOUNDS.items():
        for field, rule in rules.items():
            assert not isinstance(rule, Unchecked) or len(rule.why) > 20, f"{name}.{field}"


def test_the_largest_round_fits_into_the_tables_of_a_run():
    field = SCHEMAS["arrivals"].field("other_round")
    assert np.iinfo(field.type.to_pandas_dtype()).max == LARGEST_ROUND


@pytest.mark.parametrize("samples", [0, LARGEST_SAMPLES + 1, 2**64 - 1])
def test_a_refusal_says_what_is_wrong_and_what_was_expected(samples):
    manifest = wire.Manifest(
        digest=bytes(32), size=9, round=LARGEST_ROUND, num_samples=samples, parts=[0]
    )
    with pytest.raises(Refused) as refused:
        parse(wire.Manifest, manifest.SerializeToString())
    assert refused.value.reason is Reason.MALFORMED
    assert refused.value.detail == f"Manifest.num_samples is {samples}, expected 1 to 2147483647"


TABLES = {
    "as they should be": ({"peers": IDS, "verdicts": GOOD}, None),
    "unsorted": ({"peers": IDS[::-1], "verdicts": GOOD[::-1]}, None),
    "empty": ({"peers": IDS[:0], "verdicts": GOOD[:0]}, None),
    "nothing at all": ({}, None),
    "of another strategy": ({"peers": IDS, "others": np.array([math.nan])}, None),
    "NaN": ({"peers": IDS, "verdicts": np.array([0, 1, math.nan])}, Reason.NOT_FINITE),
    "infinite": ({"peers": IDS, "verdicts": np.array([0, 1, math.inf])}, Reason.NOT_FINITE),
    "too large": ({"peers": IDS, "verdicts": np.array([0, 0, 1e308])}, Reason.MALFORMED),
    "negative": ({"peers": IDS, "verdicts": np.array([0, 0, -5e-324])}, Reason.MALFORMED),
    "rounded": ({"peers": IDS, "verdicts": GOOD.astype("f4")}, Reason.WRONG_DTYPE),
    "whole numbers": ({"peers": IDS, "verdicts": GOOD.astype("i8")}, Reason.WRONG_DTYPE),
    "too short": ({"peers": IDS, "verdicts": GOOD[:2]}, Reason.WRONG_SHAPE),
    "of two dimensions": ({"peers": IDS, "verdicts": GOOD[:, None]}, Reason.WRONG_SHAPE),
    "about whom": ({"verdicts": GOOD}, Reason.WRONG_NAMES),
    "one peer twice": ({"peers": IDS[[0, 1, 0]], "verdicts": GOOD}, Reason.MALFORMED),
    "one peer twice, in no table": ({"peers": IDS[[0, 1, 0]]}, Reason.MALFORMED),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name):
    arrays, reason = TABLES[name]
    if reason is None:
        require_tables(arrays, RANGES)
        return
    with pytest.raises(Refused) as refused:
        require_tables(arrays, RANGES)
    assert refused.value.reason is reason
