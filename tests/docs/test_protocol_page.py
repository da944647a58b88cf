"""The page about the protocol names every call, every field and every reason, and no other."""

from __future__ import annotations

import re

import pytest
from pages import ROOT

from coterie.peer.refusals import Reason
from coterie.peer.transport.grpc_status import status_of
from coterie.peer.wire import protocol_pb2 as wire

PAGE = (ROOT / "docs" / "protocol.md").read_text()
SERVICE = wire.DESCRIPTOR.services_by_name["Peer"]


def test_every_call_has_its_section():
    stream = {"PullModel": "stream "}
    for call in SERVICE.methods:
        types = f"{call.input_type.name}) returns ({stream.get(call.name, '')}"
        line = f"### {call.name}\n\n`{call.name}({types}{call.output_type.name})`"
        assert line in PAGE, call.name
    assert len(re.findall(r"^`\w+\(\w+\) returns", PAGE, re.MULTILINE)) == len(SERVICE.methods)


@pytest.mark.parametrize("message", wire.DESCRIPTOR.message_types_by_name.values())
def test_every_field_is_documented_and_no_other(message):
    if not message.fields:
        assert f"{message.name} has no fields." in PAGE
        return
    table = re.search(rf"^{message.name}:\n\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert table, message.name
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| \w+ \| .+ \|$", table[1], re.MULTILINE)
    assert len(rows) == table[1].count("\n") - 2, "a row is not of the usual form"
    assert rows == [(field.name, str(field.number)) for field in message.fields]


@pytest.mark.parametrize("kind", wire.DESCRIPTOR.enum_types_by_name.values())
def test_every_number_of_an_enumeration_is_documented(kind):
    for value in kind.values:
        assert f"{value.name} ({value.number})" in PAGE


def test_every_reason_is_documented_with_its_status():
    section = PAGE.split("\n## Reasons\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| ([A-Z_]+) \|", section, re.MULTILINE)
    assert rows == [(reason.value, status_of(reason).name) for reason in Reason]
