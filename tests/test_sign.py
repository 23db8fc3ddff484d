"""Releases are signed with a key that is given, and nothing else than the signed files passes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest


def load_tool() -> Any:
    """Return the module of the tool, which is in no package."""
    spec = spec_from_file_location("sign", Path(__file__).parents[1] / "tools" / "sign.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sign = load_tool()
pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs OpenSSH")


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "memoranda-1.0.0.tar.gz").write_bytes(b"source")
    digest = hashlib.sha256(b"source").hexdigest()
    (folder / "SHA256SUMS").write_text(f"{digest}  memoranda-1.0.0.tar.gz\n")
    return folder


def new_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)
    return path


def signers(folder: Path, key: Path) -> Path:
    path = folder / "allowed_signers"
    path.write_text(f"memoranda {key.with_suffix('.pub').read_text()}")
    return path


def test_a_release_is_signed_and_its_signature_verifies(dist: Path, tmp_path: Path) -> None:
    key = new_key(tmp_path / "key")
    signature = sign.sign(dist, key)
    assert signature == dist / "SHA256SUMS.sig"
    sign.verify(dist / "SHA256SUMS", signature, signers(tmp_path, key))
    # Again, after the files were built again.
    assert sign.main([str(key), str(dist)]) == 0


def test_another_key_and_other_files_do_not_verify(dist: Path, tmp_path: Path) -> None:
    signature = sign.sign(dist, new_key(tmp_path / "key"))
    with pytest.raises(sign.Refused):
        sign.verify(dist / "SHA256SUMS", signature, signers(tmp_path, new_key(tmp_path / "other")))
    sums = dist / "SHA256SUMS"
    sums.write_text(sums.read_text() + "0  more\n")
    with pytest.raises(sign.Refused):
        sign.verify(sums, signature, signers(tmp_path, tmp_path / "key"))


def test_nothing_is_signed_that_differs_from_its_checksum(
    dist: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = new_key(tmp_path / "key")
    (dist / "memoranda-1.0.0.tar.gz").write_bytes(b"something else")
    assert sign.main([str(key), str(dist)]) == 1
    assert "memoranda-1.0.0.tar.gz is not the file" in capsys.readouterr().err
    assert not (dist / "SHA256SUMS.sig").exists()
    assert sign.main([str(key), str(tmp_path)]) == 1
    assert sign.main([str(tmp_path / "none"), str(dist)]) == 1
