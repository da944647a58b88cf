"""Addresses of peers: records that each peer signs about itself and any peer may pass on."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from coterie.errors import ConfigError
from coterie.peer.refusals import Reason, Refused
from coterie.peer.security.certificates import Certificate, clean_name
from coterie.peer.security.identity import Identity
from coterie.peer.security.trust import TrustStore
from coterie.peer.types import PeerKey
from coterie.peer.wire import field_bounds, protocol_pb2
from coterie.peer.wire.field_bounds import LARGEST_ADDRESS

# The standard allows no underscore in host names, but names of containers have them.
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"(?:.*\.)?[0-9]+")
_PORT = re.compile(r"0|[1-9][0-9]{0,4}")


@dataclass(frozen=True)
class Address:
    """The address that a peer announces for itself."""

    peer_id: PeerKey
    address: str
    """host:port"""
    sequence: int
    instance: bytes
    name: str
    """The name that its owner chose: not verified, but safe to print."""


def split_address(address: str, *, smallest_port: int = 1) -> tuple[str, int]:
    """Return host, without brackets, and port of "host:port"; refuse anything else.

    Port 0, any free one, is valid for listening only.
    """
    host, colon, port = address.rpartition(":")
    if len(address) > LARGEST_ADDRESS:
        problem = f"it has more than {LARGEST_ADDRESS} characters"
    elif not colon:
        problem = "it has no port"
    elif not _PORT.fullmatch(port) or not smallest_port <= int(port) <= 65535:
        problem = f"its port is not a number from {smallest_port} to 65535"
    elif not _is_host(host):
        problem = "its host is neither a name nor an IPv4 address nor an IPv6 address in brackets"
    else:
        return host.strip("[]"), int(port)
    raise ConfigError(
        f"{address[:LARGEST_ADDRESS]!a} is not an address: {problem}. Expected host:port, "
        "such as 'clinic.example.org:7300', '192.0.2.7:7300' or '[2001:db8::7]:7300'."
    )


def sign_address(
    identity: Identity, address: str, sequence: int, instance: bytes
) -> protocol_pb2.SignedAddress:
    """Return the signed address of a peer; of all its records, the highest sequence counts."""
    split_address(address)
    record = protocol_pb2.AddressRecord(
        peer_id=bytes.fromhex(identity.peer_id),
        address=address,
        sequence=sequence,
        instance=instance,
        name=identity.name,
    ).SerializeToString()
    return protocol_pb2.SignedAddress(record=record, signature=identity.sign(record))


def open_address(
    signed: protocol_pb2.SignedAddress, trust: TrustStore, me: Identity | None = None
) -> Address:
    """Check a record from outside: the peer itself must sign it and be trusted, or be `me`."""
    record = _parse(signed)
    peer_id = record.peer_id.hex()
    if not _signer(peer_id, trust, me).verify(signed.record, signed.signature):
        raise Refused(Reason.BAD_SIGNATURE, f"{peer_id} did not sign this address")
    try:
        split_address(record.address)
    except ConfigError as error:
        raise Refused(Reason.MALFORMED, str(error)) from error
    name = clean_name(record.name)
    return Address(peer_id, record.address, record.sequence, record.instance, name)


def _parse(signed: protocol_pb2.SignedAddress) -> protocol_pb2.AddressRecord:
    field_bounds.require(signed)
    try:
        record = protocol_pb2.AddressRecord.FromString(signed.record)
    except DecodeError as error:
        raise Refused(Reason.MALFORMED, "these bytes are not an address record") from error
    field_bounds.require(record)
    return record


def _signer(peer_id: PeerKey, trust: TrustStore, me: Identity | None) -> Certificate:
    if me is not None and peer_id == me.peer_id:
        return me.certificate
    certificate = trust.get(peer_id)
    if certificate is None or not certificate.is_valid:
        raise Refused(Reason.UNTRUSTED, f"this address is of {peer_id}, which is not trusted")
    return certificate


def _is_host(host: str) -> bool:
    try:
        if host.startswith("[") and host.endswith("]"):
            ipaddress.IPv6Address(host[1:-1])
            return (
                "%" not in host
            )  # a scope, as in fe80::1%eth0, has no meaning for other computers
        if _NUMBER.fullmatch(host):
            ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return bool(_HOST.fullmatch(host))
