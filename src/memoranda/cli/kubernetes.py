"""Writing files into a Secret of Kubernetes, from a pod of the cluster: its master key after a rotation.

Files that a Secret mounts cannot be written in the pod, so a new master key has to be stored through the API. The order
matters: first a dry run checks that the pod may write the Secret, then the key is rotated, then it is stored. If the
last step fails, the message says how to store the new key before the server is restarted.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from memoranda.encoding.bases import base64_encode
from memoranda.errors import InvalidInput, StoreUnavailable, words_of

# Files that Kubernetes puts into every pod with a service account.
ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# Seconds to wait for the API.
_ANSWER_SECONDS: Final = 10.0


class Secret:
    """A Secret, changed with the rights of a service account.

    `api` is the address of the API; without it, the one of the cluster in which this pod runs.
    """

    def __init__(self, name: str, *, api: str = "") -> None:
        host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
        if not api and not host:
            raise InvalidInput(
                "--kubernetes-secret: this is not a pod of a cluster; run it in one, or give --kubernetes-api"
            )
        if api and not api.startswith(("https://", "http://127.0.0.1:", "http://localhost:")):
            raise InvalidInput(
                "--kubernetes-api: must be https, or http on this machine (kubectl proxy)"
            )
        bracketed = f"[{host}]" if ":" in host else host
        base = api.rstrip("/") or f"https://{bracketed}:{port}"
        namespace = _load_text(ACCOUNT_FOLDER / "namespace")
        self._address = (
            f"{base}/api/v1/namespaces/{quote(namespace)}/secrets/{quote(name, safe='')}"
        )
        self._name, self._token = name, _load_text(ACCOUNT_FOLDER / "token")
        authority = ACCOUNT_FOLDER / "ca.crt"
        trust = (
            ssl.create_default_context(cafile=str(authority)) if base.startswith("https") else None
        )
        self._opener = build_opener(ProxyHandler({}), HTTPSHandler(context=trust))

    def write(self, files: Mapping[str, bytes], *, is_dry: bool = False) -> None:
        """Replace files of the Secret; the others stay. A dry run only checks that this is allowed."""
        data = {name: base64_encode(content) for name, content in files.items()}
        request = Request(  # noqa: S310 -- https, or this machine
            f"{self._address}?fieldManager=memoranda{'&dryRun=All' if is_dry else ''}",
            json.dumps({"data": data}).encode(),
            {
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/merge-patch+json",
                "Accept": "application/json",
            },
            method="PATCH",
        )
        try:
            with self._opener.open(request, timeout=_ANSWER_SECONDS):
                pass
        except HTTPError as error:
            with error:
                raise StoreUnavailable(
                    f"the Secret {self._name} cannot be changed: the API answered HTTP {error.code}"
                ) from None
        except OSError as error:
            reason: Any = getattr(error, "reason", error)
            text = words_of(reason) if isinstance(reason, OSError) else str(reason)
            raise StoreUnavailable(
                f"the Secret {self._name} cannot be changed: the API cannot be reached: {text}"
            ) from None


def rotate_into_secret(secret: Secret, master_key: Path, rotate: Callable[[], int]) -> int:
    """Rotate the master key, and store the new one in a Secret; return the number of wrapped keys.

    Whether the Secret may be changed is checked first: a master key that is in no Secret would be lost with the pods.
    """
    secret.write({master_key.name: master_key.read_bytes()}, is_dry=True)
    count = rotate()
    try:
        secret.write({master_key.name: master_key.read_bytes()})
    except StoreUnavailable as error:
        error.message += (
            ". The keys are wrapped under a new master key, which the Secret does not have yet: run "
            "`memoranda oms rotate-key` with --kubernetes-secret on a running server before it is restarted"
        )
        raise
    return count


def _load_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise StoreUnavailable(
            f"the pod's service account cannot be read: {words_of(error)}", path=path
        ) from error
