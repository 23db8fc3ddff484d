"""https by the server itself, for a team without a proxy."""

from __future__ import annotations

import datetime
import ssl
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.bindings.http.process import serving
from tests.waiting import HANG_SECONDS

from memoranda.cli import main


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for this machine, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "memoranda test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, private = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_with_a_certificate_speaks_https_and_nothing_else(
    tmp_path: Path, files: tuple[Path, Path], workers: str
) -> None:
    options = ("--tls-cert", str(files[0]), "--tls-key", str(files[1]), "--workers", workers)
    with serving(tmp_path / "home", *options) as server:
        assert server.url.startswith("https://")
        headers = {"Authorization": f"Bearer {server.credential}"}
        trusted = ssl.create_default_context(cafile=str(files[0]))
        with httpx.Client(base_url=server.url, headers=headers, verify=trusted, timeout=HANG_SECONDS) as client:
            assert client.post("/ump/recall", json={"query": "x"}).status_code == 200
            # A page of our own is one that came over https.
            assert client.get("/healthz", headers={"Origin": server.url}).status_code == 200
            assert client.get("/healthz", headers={"Origin": "http" + server.url[5:]}).status_code == 403
        with pytest.raises(httpx.HTTPError):
            httpx.get("http" + server.url[5:] + "/healthz", timeout=HANG_SECONDS)


def test_a_certificate_needs_its_key(
    tmp_path: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path / "home"))
    assert main(["serve", "--port", "0", "--tls-cert", str(files[0])]) != 0
    assert "set both, or neither" in capsys.readouterr().err
    assert main(["serve", "--port", "0", "--tls-cert", str(files[0]), "--tls-key", str(files[0])]) != 0
    assert "cannot be used" in capsys.readouterr().err
