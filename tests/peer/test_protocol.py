"""What protoc wrote is of the protocol as it stands in the file, and our enums are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from coterie.peer.wire import protocol_pb2
from coterie.peer.wire.model import Part, Phase
from coterie.peer.wire.payload import Encoding

WRITTEN = re.sub(r"//.*", "", Path(protocol_pb2.__file__).with_name("protocol.proto").read_text())
BLOCK = r"^%s (\w+) \{(.*?)\}"
FIELD = re.compile(r"^\s*(?:(optional|repeated) )?(\w+) (\w+) = (\d+);", re.MULTILINE)
CALL = re.compile(r"rpc (\w+)\((\w+)\) returns \((stream )?(\w+)\);")


def blocks(kind: str) -> dict[str, str]:
    return dict(re.findall(BLOCK % kind, WRITTEN, re.MULTILINE | re.DOTALL))


def type_of(field: FieldDescriptor) -> str:
    named = field.message_type or field.enum_type
    kinds = {
        value: name.removeprefix("TYPE_").lower()
        for name, value in vars(FieldDescriptor).items()
        if name.startswith("TYPE_")
    }
    return named.name if named else kinds[field.type]


def label_of(field: FieldDescriptor) -> str:
    if field.is_repeated:
        return "repeated"
    return "optional" if field.containing_oneof else ""


def test_messages():
    known = dict(protocol_pb2.DESCRIPTOR.message_types_by_name)
    assert blocks("message").keys() == known.keys()
    for name, body in blocks("message").items():
        written = {
            (label, kind, field, int(number)) for label, kind, field, number in FIELD.findall(body)
        }
        assert len(written) == body.count(";")  # the expression has missed nothing
        assert written == {
            (label_of(field), type_of(field), field.name, field.number)
            for field in known[name].fields
        }


def test_enums():
    known = dict(protocol_pb2.DESCRIPTOR.enum_types_by_name)
    assert blocks("enum").keys() == known.keys()
    for name, body in blocks("enum").items():
        written = {key: int(number) for key, number in re.findall(r"(\w+) = (\d+);", body)}
        assert written == {value.name: value.number for value in known[name].values}


def test_calls():
    descriptor = FileDescriptorProto.FromString(protocol_pb2.DESCRIPTOR.serialized_pb)
    (service,) = descriptor.service
    known = [
        (
            method.name,
            method.input_type.rpartition(".")[2],
            "stream " if method.server_streaming else "",
            method.output_type.rpartition(".")[2],
        )
        for method in service.method
    ]
    assert CALL.findall(WRITTEN) == known
    assert len(known) == WRITTEN.count("rpc ")
    assert f"package {descriptor.package};" in WRITTEN


@pytest.mark.parametrize("ours", [Encoding, Part, Phase])
def test_our_enums_have_the_numbers_of_the_protocol(ours):
    theirs = getattr(protocol_pb2, ours.__name__)
    assert {each.name: each.value for each in ours} == dict(theirs.items())
