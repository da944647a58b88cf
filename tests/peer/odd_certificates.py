"""Certificates of every kind, also of those that Coterie never makes."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

OTHER_KEYS = {
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "secp256k1": lambda: ec.generate_private_key(ec.SECP256K1()),
}
BOTH_ENDS = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_id(key: Any) -> str:
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(public).hexdigest()


def key_pem(key: Any) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def certificate(
    key: Any,
    *,
    subject: x509.Name | None = None,
    issuer: x509.Name | None = None,
    issuer_key: Any = None,
    ca: bool | None = False,
    signs_certificates: bool = False,
    uses: tuple[x509.ObjectIdentifier, ...] = BOTH_ENDS,
    names: tuple[str, ...] = ("coterie",),
    digest: Any = None,
    days: tuple[float, float] = (-1, 10),
) -> bytes:
    """Return a certificate, PEM: by default one that is as it should be, for the key given."""
    now = datetime.now(UTC)
    subject = called("odd") if subject is None else subject
    usage = [True, False, False, False, False, signs_certificates, False, False, False]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.KeyUsage(*usage), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, names))), critical=False)
    )
    if ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
    signer = issuer_key or key
    if isinstance(signer, ed25519.Ed25519PrivateKey):
        digest = None
    elif digest is None:
        digest = SHA256()
    return builder.sign(signer, digest).public_bytes(Encoding.PEM)
