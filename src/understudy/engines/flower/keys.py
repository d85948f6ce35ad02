"""The server's certificates, and the keys that identify sites.

The server's folder holds ``ca.crt``, ``ca.key``, ``server.crt``, ``server.key`` and ``nodes/NAME.pub`` for every site
that may join. A site's folder holds ``ca.crt`` (from the server), ``NAME`` and ``NAME.pub``; only the .pub leaves it.
"""

import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from understudy.errors import UserError
from understudy.files import make_private
from understudy.site_names import check_site_name

DAYS = 825  # how long a certificate is valid
HOST_NAME = re.compile(r"(\*\.)?[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")


class Certificates:
    """A server's three files, made and read together."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.ca, self.certificate, self.key = (folder / name for name in ("ca.crt", "server.crt", "server.key"))

    def nodes(self) -> dict[str, bytes]:
        """Public keys of the sites that may join, in Flower's format, by name."""
        return {file.stem: _public_pem(file) for file in sorted((self.folder / "nodes").glob("*.pub"))}


def server_certificates(folder: Path) -> Certificates:
    found = Certificates(folder)
    for file in (found.ca, found.certificate, found.key):
        if not file.is_file():
            raise UserError(f"There is no {file}; make it with `understudy keys server {folder} --host NAME`.")
    return found


def make_server(folder: Path, hosts: Sequence[str]) -> Certificates:
    """Makes a certificate authority, and the server's certificate for the names and addresses that sites will dial."""
    from cryptography.hazmat.primitives import serialization

    made = Certificates(folder)
    if made.ca.exists() or made.key.exists():
        raise UserError(f"{folder} already holds certificates; sites trust them, so they are not overwritten.")
    make_private(folder)
    (folder / "nodes").mkdir(exist_ok=True)
    ca_key, server_key = _new_key("P-256"), _new_key("P-256")
    ca = _ca_certificate(ca_key)
    everywhere = list(dict.fromkeys([*hosts, "localhost", "127.0.0.1"]))
    certificate = _server_certificate(server_key, ca, ca_key, everywhere)
    secrets = {folder / "ca.key": ca_key, made.key: server_key}
    public = {made.ca: ca, made.certificate: certificate}
    try:
        for file, key in secrets.items():
            _write(file, _private(key, serialization.PrivateFormat.PKCS8), secret=True)
        for file, shown in public.items():
            _write(file, shown.public_bytes(serialization.Encoding.PEM), secret=False)
    except OSError:  # a full disk: leftover files would block the next try
        for file in (*secrets, *public):
            file.unlink(missing_ok=True)
        raise
    return made


def make_node(folder: Path, name: str) -> Path:
    """Makes a site's key pair; returns the file to send to the server's operator."""
    from cryptography.hazmat.primitives import serialization

    check_site_name(name)
    private, public = folder / name, folder / f"{name}.pub"
    if private.exists():
        raise UserError(f"{private} already exists; it identifies the site to the server, so it is not overwritten.")
    make_private(folder)
    key = _new_key("P-384")
    _write(private, _private(key, serialization.PrivateFormat.OpenSSH), secret=True)
    text = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    _write(public, text + b" " + name.encode() + b"\n", secret=False)
    return public


def admit(folder: Path, public: Path, name: str | None = None) -> str:
    """Adds a site's public key to those that may join; returns the name under which it is known."""
    known_as = name or public.stem
    check_site_name(known_as)
    _public_pem(public)
    target = folder / "nodes" / f"{known_as}.pub"
    if target.exists() and target.read_bytes() != public.read_bytes():
        raise UserError(f"{target} already exists with another key; give the site another --name.")
    make_private(folder)
    target.parent.mkdir(exist_ok=True)
    _write(target, public.read_bytes(), secret=False)
    return known_as


def _public_pem(file: Path) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key = serialization.load_ssh_public_key(file.read_bytes())
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}).") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UserError(f"{file} is not a site's public key; make one with `understudy keys client NAME`.") from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise UserError(f"{file} is a key of another kind; make one with `understudy keys client NAME`.")
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _new_key(curve: str) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP384R1() if curve == "P-384" else ec.SECP256R1())


def _private(key: Any, form: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    text: bytes = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return text


def _named(common: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: str, issuer: Any, public: Any) -> Any:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(subject))
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=10))  # clocks differ
        .not_valid_after(now + timedelta(days=DAYS))
    )


def _ca_certificate(key: Any) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    usage = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
    )
    return (
        _builder("understudy federation", _named("understudy federation"), key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(**usage, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _server_certificate(key: Any, ca: Any, ca_key: Any, hosts: Sequence[str]) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    return (
        _builder("understudy server", ca.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )


def _alternative(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not HOST_NAME.fullmatch(host):
        raise UserError(f"--host {host}: write a name or an address in plain ASCII.")
    return x509.DNSName(host)


def _write(file: Path, content: bytes, *, secret: bool) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if secret else 0o644), "wb") as out:
        out.write(content)
