"""Certificates of peers: each is signed by its own key; there is no authority.

A certificate is trusted because a person compared its id, the SHA-256 of the public key, over
another channel. The bytes come from outside, so all of them are checked.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from coterie.errors import ConfigError
from coterie.peer.types import PeerKey

KEY = "key.pem"
CERTIFICATE = "certificate.pem"
TLS_NAME = "coterie"
"""The name in every certificate: peers are identified by key, not by host name."""
LARGEST_FILE_BYTES = 16 * 2**10
LARGEST_NAME_BYTES = 64
SIGNATURE = ec.ECDSA(SHA256())
# Everything the library raises about unreadable bytes, and its warnings, which -W makes errors.
DAMAGE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    Warning,
)
_USES = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)


class Unusable(Exception):  # noqa: N818 — a reason, put into the error of the caller
    """The reason why a file cannot be used."""


@dataclass(frozen=True)
class Certificate:
    """A certificate that passed all checks, except that it may have expired."""

    peer_id: PeerKey
    name: str
    """The name that its owner chose: not verified, but safe to print."""
    pem: bytes
    """This certificate alone, without other content of the file."""
    public_key: ec.EllipticCurvePublicKey = field(repr=False, compare=False)
    not_before: datetime
    not_after: datetime

    @property
    def is_valid(self) -> bool:
        """Whether it is valid now."""
        return self.not_before <= datetime.now(UTC) <= self.not_after

    @property
    def validity(self) -> str:
        """The time of validity, as text."""
        return f"valid from {self.not_before:%Y-%m-%d %H:%M} to {self.not_after:%Y-%m-%d %H:%M} UTC"

    def verify(self, data: bytes, signature: bytes) -> bool:
        """Return whether the owner of this certificate signed the data."""
        try:
            self.public_key.verify(signature, data, SIGNATURE)
        except InvalidSignature:
            return False
        return True


def read_certificate(pem: bytes, what: str = "The certificate") -> Certificate:
    """Check a certificate from outside, except for its time; `what` names it in errors."""
    try:
        return parse_certificate(pem)
    except Unusable as problem:
        raise ConfigError(
            f"{what} cannot be used: {problem}. Expected the file {CERTIFICATE} that `coterie peer "
            "init` made; ask its owner for it."
        ) from problem


def peer_id_of(certificate: bytes) -> PeerKey:
    """Return the id of the certificate's key, PEM or DER; nothing else is checked."""
    try:
        if certificate.lstrip().startswith(b"-----"):
            key = x509.load_pem_x509_certificate(certificate).public_key()
        else:
            key = x509.load_der_x509_certificate(certificate).public_key()
    except DAMAGE as error:
        raise ConfigError(
            "These bytes are not a certificate. Expected one in PEM or DER, as TLS gives it."
        ) from error
    return id_of_key(key)


def id_of_key(key: PublicKeyTypes) -> PeerKey:
    """Return the id of the owner of a public key."""
    # Encoded again, so that one key has one id however a certificate encodes it.
    encoded = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(encoded).hexdigest()


def clean_name(text: str) -> str:
    """Return a name from outside that is safe to print: without control characters, shortened."""
    printable = "".join(each if each.isprintable() else "?" for each in text)
    return printable[:LARGEST_NAME_BYTES].strip() or "?"


def read_small_file(path: Path) -> bytes:
    """Read a file up to the largest certificate, and one byte more if it is longer."""
    with path.open("rb") as file:
        return file.read(LARGEST_FILE_BYTES + 1)


def make_self_signed(
    key: ec.EllipticCurvePrivateKey, name: str, start: datetime, end: datetime
) -> bytes:
    """Return a certificate, PEM, that a key signs for itself."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_only_signatures(), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_USES), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(TLS_NAME)]), critical=False)
        .sign(key, SHA256())
    )
    return certificate.public_bytes(Encoding.PEM)


def _only_signatures() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def parse_certificate(pem: bytes) -> Certificate:
    """Parse hostile bytes; raise Unusable unless they are a certificate that Coterie could make."""
    if len(pem) > LARGEST_FILE_BYTES:
        raise Unusable(f"it has more than {LARGEST_FILE_BYTES // 2**10} KiB")
    if b"PRIVATE KEY" in pem:
        raise Unusable("it holds a private key, which must never leave its owner's computer")
    # Any block counts: TLS would also read a "TRUSTED CERTIFICATE", which the library skips.
    if pem.count(b"-----BEGIN ") > 1:
        raise Unusable("it holds more than one certificate")
    try:
        parsed = x509.load_pem_x509_certificate(pem)
        public_key = parsed.public_key()
        if not isinstance(public_key, ec.EllipticCurvePublicKey) or not isinstance(
            public_key.curve, ec.SECP256R1
        ):
            raise Unusable("its key is not an ECDSA key on the curve P-256")
        _check_signature(parsed)
        _check_powers(parsed.extensions)
        return Certificate(
            peer_id=id_of_key(public_key),
            name=_name_in(parsed.subject),
            pem=parsed.public_bytes(Encoding.PEM),
            public_key=public_key,
            not_before=parsed.not_valid_before_utc,
            not_after=parsed.not_valid_after_utc,
        )
    except x509.ExtensionNotFound as error:
        raise Unusable("it does not state what its key may be used for") from error
    except DAMAGE as error:
        raise Unusable("it is not a certificate in PEM, or it is damaged") from error


def _check_signature(certificate: x509.Certificate) -> None:
    try:
        certificate.verify_directly_issued_by(certificate)
    except (InvalidSignature, ValueError, TypeError) as error:
        raise Unusable("it is not signed by its own key") from error
    if not isinstance(certificate.signature_hash_algorithm, SHA256):
        raise Unusable("it is not signed with SHA-256")
    if certificate.serial_number <= 0:
        raise Unusable("its serial number is not positive")


def _check_powers(extensions: x509.Extensions) -> None:
    """Refuse a certificate that could sign others, or that TLS would not accept."""
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    if extensions.get_extension_for_class(x509.BasicConstraints).value.ca or usage.key_cert_sign:
        raise Unusable("it is a certificate of an authority, which could sign others")
    uses = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    if not usage.digital_signature or not set(_USES) <= set(uses):
        raise Unusable("its key may not be used on both ends of a connection")
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if list(names) != [x509.DNSName(TLS_NAME)]:
        raise Unusable(f"it is not for the name '{TLS_NAME}'")


def _name_in(subject: x509.Name) -> str:
    match [(each.oid, each.value) for each in subject]:
        case [(NameOID.COMMON_NAME, str(name))]:
            return clean_name(name)
    raise Unusable("its subject is not exactly one name")
