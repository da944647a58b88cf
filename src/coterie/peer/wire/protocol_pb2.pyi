from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Encoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FLOAT32: _ClassVar[Encoding]
    BFLOAT16: _ClassVar[Encoding]
    FLOAT32_ZSTD: _ClassVar[Encoding]
    BFLOAT16_ZSTD: _ClassVar[Encoding]

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTERED: _ClassVar[Phase]
    SENT: _ClassVar[Phase]
    PUBLISHED: _ClassVar[Phase]

class Part(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODEL: _ClassVar[Part]
    MESSAGE: _ClassVar[Part]
    LAST_UPDATE: _ClassVar[Part]
    TOTAL_UPDATE: _ClassVar[Part]
FLOAT32: Encoding
BFLOAT16: Encoding
FLOAT32_ZSTD: Encoding
BFLOAT16_ZSTD: Encoding
ENTERED: Phase
SENT: Phase
PUBLISHED: Phase
MODEL: Part
MESSAGE: Part
LAST_UPDATE: Part
TOTAL_UPDATE: Part

class HelloMessage(_message.Message):
    __slots__ = ("version", "peer_id", "layout", "instance", "largest_payload", "encodings", "address", "frozen")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PEER_ID_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    LARGEST_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ENCODINGS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    version: int
    peer_id: bytes
    layout: bytes
    instance: bytes
    largest_payload: int
    encodings: _containers.RepeatedScalarFieldContainer[Encoding]
    address: SignedAddress
    frozen: bytes
    def __init__(self, version: _Optional[int] = ..., peer_id: _Optional[bytes] = ..., layout: _Optional[bytes] = ..., instance: _Optional[bytes] = ..., largest_payload: _Optional[int] = ..., encodings: _Optional[_Iterable[_Union[Encoding, str]]] = ..., address: _Optional[_Union[SignedAddress, _Mapping]] = ..., frozen: _Optional[bytes] = ...) -> None: ...

class SignedAddress(_message.Message):
    __slots__ = ("record", "signature")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    record: bytes
    signature: bytes
    def __init__(self, record: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class AddressRecord(_message.Message):
    __slots__ = ("peer_id", "address", "sequence", "instance", "name")
    PEER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    peer_id: bytes
    address: str
    sequence: int
    instance: bytes
    name: str
    def __init__(self, peer_id: _Optional[bytes] = ..., address: _Optional[str] = ..., sequence: _Optional[int] = ..., instance: _Optional[bytes] = ..., name: _Optional[str] = ...) -> None: ...

class AddressList(_message.Message):
    __slots__ = ("addresses",)
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    addresses: _containers.RepeatedCompositeFieldContainer[SignedAddress]
    def __init__(self, addresses: _Optional[_Iterable[_Union[SignedAddress, _Mapping]]] = ...) -> None: ...

class AwaitRequest(_message.Message):
    __slots__ = ("round", "phase", "wait_milliseconds")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    WAIT_MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    round: int
    phase: Phase
    wait_milliseconds: int
    def __init__(self, round: _Optional[int] = ..., phase: _Optional[_Union[Phase, str]] = ..., wait_milliseconds: _Optional[int] = ...) -> None: ...

class StatusMessage(_message.Message):
    __slots__ = ("round", "phase", "published", "published_round", "instance")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_ROUND_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    round: int
    phase: Phase
    published: bool
    published_round: int
    instance: bytes
    def __init__(self, round: _Optional[int] = ..., phase: _Optional[_Union[Phase, str]] = ..., published: bool = ..., published_round: _Optional[int] = ..., instance: _Optional[bytes] = ...) -> None: ...

class ManifestRequest(_message.Message):
    __slots__ = ("round", "parts", "encoding", "wait_milliseconds")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    WAIT_MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    round: int
    parts: _containers.RepeatedScalarFieldContainer[Part]
    encoding: Encoding
    wait_milliseconds: int
    def __init__(self, round: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[Part, str]]] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., wait_milliseconds: _Optional[int] = ...) -> None: ...

class Manifest(_message.Message):
    __slots__ = ("digest", "size", "round", "age_milliseconds", "num_samples", "encoding", "parts")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    AGE_MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    NUM_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    size: int
    round: int
    age_milliseconds: int
    num_samples: int
    encoding: Encoding
    parts: _containers.RepeatedScalarFieldContainer[Part]
    def __init__(self, digest: _Optional[bytes] = ..., size: _Optional[int] = ..., round: _Optional[int] = ..., age_milliseconds: _Optional[int] = ..., num_samples: _Optional[int] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., parts: _Optional[_Iterable[_Union[Part, str]]] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("digest", "offset")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    offset: int
    def __init__(self, digest: _Optional[bytes] = ..., offset: _Optional[int] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("offset", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class ScoreRequest(_message.Message):
    __slots__ = ("manifest", "metric", "round")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    manifest: Manifest
    metric: str
    round: int
    def __init__(self, manifest: _Optional[_Union[Manifest, _Mapping]] = ..., metric: _Optional[str] = ..., round: _Optional[int] = ...) -> None: ...

class ScoreReply(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: float
    def __init__(self, value: _Optional[float] = ...) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ("manifest", "round")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    manifest: Manifest
    round: int
    def __init__(self, manifest: _Optional[_Union[Manifest, _Mapping]] = ..., round: _Optional[int] = ...) -> None: ...

class PushReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TellRequest(_message.Message):
    __slots__ = ("value", "round")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    value: float
    round: int
    def __init__(self, value: _Optional[float] = ..., round: _Optional[int] = ...) -> None: ...

class TellReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GoodbyeMessage(_message.Message):
    __slots__ = ("instance",)
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    instance: bytes
    def __init__(self, instance: _Optional[bytes] = ...) -> None: ...

class GoodbyeReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
