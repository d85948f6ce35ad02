"""Certificates and keys: made once, readable by their owner alone, and never written over."""

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from understudy.engines.flower.keys import admit, make_node, make_server, server_certificates
from understudy.errors import UserError


def test_the_servers_certificate_names_what_sites_dial_and_is_signed_by_the_authority(tmp_path: Path) -> None:
    made = make_server(tmp_path, ["fl.example.org", "10.0.0.7"])
    certificate = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fl.example.org", "localhost"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7", "127.0.0.1"]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(made.ca.read_bytes()))
    ssl.create_default_context(cafile=str(made.ca)).load_cert_chain(made.certificate, made.key)


def test_private_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    make_server(tmp_path, [])
    make_node(tmp_path / "site", "ash")
    for file in (tmp_path / "ca.key", tmp_path / "server.key", tmp_path / "site" / "ash"):
        assert file.stat().st_mode & 0o077 == 0


def test_a_sites_key_is_what_flower_takes(tmp_path: Path) -> None:
    public = make_node(tmp_path, "ash")
    private = serialization.load_ssh_private_key((tmp_path / "ash").read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.curve.name == "secp384r1"
    assert public.read_bytes().startswith(b"ecdsa-sha2-nistp384 ")


def test_nothing_is_written_over(tmp_path: Path) -> None:
    make_server(tmp_path, [])
    make_node(tmp_path, "ash")
    with pytest.raises(UserError, match="already holds certificates"):
        make_server(tmp_path, [])
    with pytest.raises(UserError, match="already exists"):
        make_node(tmp_path, "ash")


def test_sites_are_admitted_by_name(tmp_path: Path) -> None:
    made = make_server(tmp_path / "server", [])
    assert admit(made.folder, make_node(tmp_path, "ash")) == "ash"
    assert admit(made.folder, tmp_path / "ash.pub") == "ash"  # again: the same
    assert admit(made.folder, make_node(tmp_path, "b"), "birch") == "birch"
    assert list(made.nodes()) == ["ash", "birch"]
    with pytest.raises(UserError, match="another key"):
        admit(made.folder, tmp_path / "b.pub", "ash")


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    made = make_server(tmp_path / "server", [])
    text = tmp_path / "site.pub"
    text.write_text("hello")
    with pytest.raises(UserError, match="not a site's public key"):
        admit(made.folder, text)
    other = ed25519.Ed25519PrivateKey.generate().public_key()
    text.write_bytes(other.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH))
    with pytest.raises(UserError, match="of another kind"):
        admit(made.folder, text)
    with pytest.raises(UserError, match="cannot be read"):
        admit(made.folder, tmp_path / "nowhere.pub")


@pytest.mark.parametrize("name", ["../ash", "", "a b", "-ash"])
def test_a_name_that_could_be_a_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot name a site"):
        make_node(tmp_path, name)


def test_a_folder_without_certificates_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="understudy keys server"):
        server_certificates(tmp_path)
