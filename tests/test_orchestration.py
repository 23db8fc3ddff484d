"""Several servers: deploy/compose.yaml, deploy/kubernetes and their page name only what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from memoranda.settings import Settings
from tests.commands import command

ROOT = Path(__file__).parents[1]
COMPOSE, KUBERNETES = ROOT / "deploy" / "compose.yaml", ROOT / "deploy" / "kubernetes"
HOWTO = ROOT / "docs" / "howto" / "postgresql.md"
FILES = [COMPOSE, *sorted(KUBERNETES.glob("*.yaml")), HOWTO]
# A command with its words, and what is given to it.
CALL = re.compile(r"(?:^|\s)memoranda(?: --(?:data|store) \S+)* ([a-z-]+(?: [a-z-]+(?= |$))?)((?: [^|;>&#]*)?)")


def parsed(path: Path) -> list[Any]:
    return list(YAML(typ="safe", pure=True).load_all(path))


def under(found: Any, *names: str) -> Iterator[Any]:
    """What stands under one of these names, however deep."""
    if isinstance(found, dict):
        yield from (value for key, value in found.items() if key in names)
    inside = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    for each in inside:
        yield from under(each, *names)


def lines(path: Path) -> Iterator[str]:
    """What is to be run."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        for block in re.findall(r"^```\w*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
            yield from block.splitlines()
        return
    yield from re.findall(r"^#   (.*)$", text, flags=re.MULTILINE)
    for each in parsed(path):
        yield from (" ".join(words) for words in under(each, "command", "test"))
        # The image begins with the command itself.
        yield from (" ".join(["memoranda", *words]) for words in under(each, "args"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_setting_and_command_that_is_named_is_one_of_ours(path: Path) -> None:
    settings = {each.name for each in fields(Settings)} | {"passphrase"}
    named = re.findall(r"\bMEMORANDA_(\w+)", path.read_text(encoding="utf-8"))
    assert named
    assert {name.lower() for name in named} <= settings
    calls = [(found[1].split(), found[2]) for line in lines(path) for found in CALL.finditer(line)]
    assert calls
    for words, given in calls:
        told = command(*words, "--help")
        assert told.code == 0, words
        assert all(flag in told.out.decode() for flag in re.findall(r"(?<!\S)--[a-z-]+", given)), (words, given)


def test_what_compose_refers_to_is_there() -> None:
    (found,) = parsed(COMPOSE)
    services = found["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()
        assert {volume.partition(":")[0] for volume in service.get("volumes", ())} <= found["volumes"].keys()
        assert set(service["networks"]) <= found["networks"].keys()
        if "build" in service:
            assert (COMPOSE.parent / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    servers = [name for name in services if name.startswith("memoranda-")]
    assert [f"--to={name}:8420" for name in servers] == services["balancer"]["command"][3:]
    proxy = services["balancer"]["networks"]["inside"]["ipv4_address"]
    assert {services[name]["environment"]["MEMORANDA_TRUSTED_PROXIES"] for name in servers} == {proxy}
    # The keys are one and the same for all, and made before the second begins.
    assert {tuple(services[name]["volumes"]) for name in servers} == {("keys:/data",)}
    assert all("memoranda-1" in services[name]["depends_on"] for name in servers[1:])


def test_what_kubernetes_is_given_fits_together() -> None:
    made = {each["kind"]: each for path in sorted(KUBERNETES.glob("*.yaml")) for each in parsed(path)}
    assert made.keys() == {"CronJob", "Deployment", "PodDisruptionBudget", "Service"}
    deployment, howto = made["Deployment"]["spec"], HOWTO.read_text(encoding="utf-8")
    labels = deployment["template"]["metadata"]["labels"]
    assert labels == deployment["selector"]["matchLabels"] == made["Service"]["spec"]["selector"]
    assert labels == made["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
    for pod in (deployment["template"]["spec"], made["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]):
        containers = [*pod["initContainers"], *pod["containers"]]
        volumes = {each["name"] for each in pod["volumes"]}
        assert {each["name"] for container in containers for each in container["volumeMounts"]} <= volumes
        assert len({container["image"] for container in containers}) == 1
        # Nothing is root, nothing can become it, and only the volumes can be written: as the image is made.
        assert pod["securityContext"]["runAsUser"] == 10001
        for container in containers:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert not container["securityContext"]["allowPrivilegeEscalation"]
        secrets = {each["name"] for each in under(pod, "secretKeyRef")} | set(under(pod, "secretName"))
        assert all(secret in howto for secret in secrets)
    (server,) = deployment["template"]["spec"]["containers"]
    asked = {server[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert asked == {"/healthz", "/readyz"}
    hosts = next(each["value"] for each in server["env"] if each["name"] == "MEMORANDA_ALLOWED_HOSTS").split(",")
    assert {header["value"] for found in under(server, "httpHeaders") for header in found} <= set(hosts)
    assert {made["Service"]["metadata"]["name"]} <= set(hosts)
