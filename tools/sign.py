"""Sign a release: python tools/sign.py KEY [FOLDER]. It signs the checksums, and with them every file of the release.

KEY is a private SSH key of the maintainers, best on a hardware token (`ed25519-sk`); it is given by the person who
releases, and is in no repository and on no build machine. The signature is `SHA256SUMS.sig` beside the checksums in
FOLDER (`dist`). It is verified before this ends. SECURITY.md says how others verify it.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

# The purpose inside of the signature: one for another purpose is not accepted.
NAMESPACE: Final = "memoranda-release"
_SIGNER: Final = "memoranda"


class Refused(Exception):
    """The reason that prevents a signature."""


def main(arguments: list[str]) -> int:
    """Sign a release, or print the reason that prevents it."""
    parser = argparse.ArgumentParser(prog="sign", description=__doc__)
    parser.add_argument("key", type=Path, help="a private key of OpenSSH, or the public one of a key in an agent")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("dist"))
    options = parser.parse_args(arguments)
    try:
        print(sign(options.folder, options.key))
    except Refused as error:
        print(f"not signed: {error}", file=sys.stderr)
        return 1
    return 0


def sign(folder: Path, key: Path) -> Path:
    """Sign the checksums of a folder, and return the signature. Raises Refused if a file differs from its checksum."""
    sums = folder / "SHA256SUMS"
    if not sums.exists():
        raise Refused(f"{sums} is missing: make the release first")
    check_sums(sums)
    signature = sums.with_name(f"{sums.name}.sig")
    signature.unlink(missing_ok=True)
    _run("-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(sums))
    public_key = key.read_text() if key.suffix == ".pub" else _run("-y", "-f", str(key))
    with tempfile.NamedTemporaryFile("w", suffix=".signers") as signers:
        signers.write(f"{_SIGNER} {public_key.strip()}\n")
        signers.flush()
        verify(sums, signature, Path(signers.name))
    return signature


def check_sums(sums: Path) -> None:
    """Raise Refused unless every file of the release is there, and is what its checksum says."""
    for line in sums.read_text().splitlines():
        digest, _, name = line.partition("  ")
        path = sums.parent / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise Refused(f"{name} is not the file that the checksums name")


def verify(sums: Path, signature: Path, signers: Path) -> None:
    """Raise Refused unless one of the allowed signers signed the checksums."""
    options = ["-Y", "verify", "-f", str(signers), "-I", _SIGNER, "-n", NAMESPACE, "-s", str(signature)]
    _run(*options, data=sums.read_bytes())


def _run(*options: str, data: bytes | None = None) -> str:
    command = ["ssh-keygen", *options]
    process = subprocess.run(command, input=data, capture_output=True, check=False)  # noqa: S603 -- our own commands
    if process.returncode != 0:
        message = process.stderr or process.stdout
        raise Refused(message.decode(errors="replace").strip())
    return process.stdout.decode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
