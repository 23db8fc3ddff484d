"""What is run for a team says what is true; to build and start it is for `make test-packages` and `test-container`."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from memoranda.cli.serve import notify_supervisor
from memoranda.encoding.json_text import parse
from memoranda.measures import FAMILIES
from memoranda.settings import Settings

ROOT = Path(__file__).parents[1]


def pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, flags=re.MULTILINE))


def test_the_container_gets_every_file_that_it_copies_and_nothing_else() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    copied = {
        word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, flags=re.MULTILINE) for word in line.split()
    }
    let_in = re.findall(r"^!(.*)$", (ROOT / ".containerignore").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert copied == set(let_in)
    assert all((ROOT / name).exists() for name in copied)
    assert (ROOT / ".dockerignore").read_bytes() == (ROOT / ".containerignore").read_bytes()


def test_the_container_is_pinned_and_runs_as_nobody() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE=\S+:[\d.]+-slim$", text, flags=re.MULTILINE)
    assert "USER 10001:10001" in text.rpartition("FROM ")[2]
    assert 'MEMORANDA_COMMIT="$COMMIT"' in text
    assert all(
        "--require-hashes" in line or "--no-index" in line for line in text.splitlines() if " install --no-c" in line
    )
    for word in ("ENTRYPOINT", "CMD"):
        assert re.search(rf'^{word} \["', text, flags=re.MULTILINE)


def test_the_locks_agree_with_each_other() -> None:
    everything = pins("requirements-dev.lock")
    for name in ("requirements.lock", "requirements-server.lock", "requirements-build.lock"):
        found = pins(name)
        assert found
        assert found.items() <= everything.items(), name


def test_the_service_starts_what_the_command_line_has_and_can_write_its_data_alone() -> None:
    folder = ROOT / "deploy" / "systemd"
    unit = (folder / "memoranda.service").read_text(encoding="utf-8")
    found = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))
    assert found["ExecStart"].split()[1:] == ["serve"]
    assert (found["Type"], found["User"], found["StateDirectory"]) == ("notify", "memoranda", "memoranda")
    assert (found["ProtectSystem"], found["NoNewPrivileges"], found["CapabilityBoundingSet"]) == ("strict", "yes", "")
    named = re.findall(r"\bMEMORANDA_(\w+)=", unit + (folder / "memoranda.env").read_text(encoding="utf-8"))
    assert {name.lower() for name in named} <= {each.name for each in fields(Settings)}


def heard(address: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        notify_supervisor("READY=1")
        return manager.recv(100).decode()


@pytest.mark.parametrize("kind", ["file", "name"])
def test_the_service_manager_is_told(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "notify") if kind == "file" else f"@memoranda-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert heard(address) == "READY=1"


def test_a_service_manager_that_is_gone_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify_supervisor("READY=1")
    assert "did not receive 'READY=1'" in caplog.text
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify_supervisor("READY=1")
    assert len(caplog.records) == 1


DEPLOY = ROOT / "deploy"
KUSTOMIZE = DEPLOY / "kustomize"


def documents(path: Path) -> list[Any]:
    """The documents of a YAML file; an anchor is valid within one."""
    texts = path.read_text(encoding="utf-8").split("\n---\n")
    return [YAML(typ="safe").load(text) for text in texts]


def test_the_alerts_ask_only_for_measures_and_labels_that_there_are() -> None:
    (alerts,) = documents(DEPLOY / "prometheus" / "alerts.yaml")
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    endings = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    known = {f"{each.name}{end}": each for each in FAMILIES.values() for end in endings[each.kind]}
    for rule in rules:
        asked = re.findall(r"\b(?:memoranda|process)_\w+", rule["expr"])
        assert asked or rule["expr"].startswith("up{")
        assert set(asked) <= set(known), rule["alert"]
        labels = {label for name in asked for label in known[name].labels} | {"instance", "le", "job"}
        grouped = re.findall(r"(?:by|on) \(([^)]*)\)", rule["expr"])
        named = {word.strip() for group in grouped for word in group.split(",")}
        named |= set(re.findall(r"[{,] ?([a-z]+)[!=]", rule["expr"]))
        assert named <= labels, rule["alert"]
        told = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert told <= labels, rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert {"summary", "description"} <= rule["annotations"].keys()
    (operator,) = documents(KUSTOMIZE / "components" / "monitoring" / "prometheus-rule.yaml")
    assert operator["spec"] == alerts


def test_prometheus_takes_the_alerts() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here: it is in Debian's package prometheus")
    rules = DEPLOY / "prometheus" / "alerts.yaml"
    subprocess.run([promtool, "check", "rules", rules], check=True, capture_output=True)
    subprocess.run(
        [promtool, "test", "rules", Path(__file__).with_name("alerts.yaml")], check=True, capture_output=True
    )


def test_the_manifests_name_settings_files_and_commands_that_there_are() -> None:
    files = [*(DEPLOY / "kubernetes").glob("*.yaml"), *KUSTOMIZE.rglob("*.yaml")]
    assert len(files) > 10
    for path in files:
        text = path.read_text(encoding="utf-8")
        named = {name.lower() for name in re.findall(r"\bMEMORANDA_(\w+)", text)} - {"passphrase"}
        assert named <= {each.name for each in fields(Settings)}, path
        if path.name == "kustomization.yaml":
            (document,) = documents(path)
            for name in (*document.get("resources", ()), *document.get("components", ())):
                assert (path.parent / name).exists(), (path, name)
            for patch in document.get("patches", ()):
                assert YAML(typ="safe").load(patch["patch"])
                assert patch["target"]["name"].startswith("memoranda")


@pytest.mark.parametrize(
    ("overlay", "kinds"),
    [
        ("staging", {"Deployment", "Service", "PodDisruptionBudget"}),
        (
            "production",
            {
                *("Deployment", "Service", "PodDisruptionBudget", "CronJob", "NetworkPolicy", "ServiceMonitor"),
                *("PrometheusRule", "ServiceAccount", "Role", "RoleBinding"),
            },
        ),
    ],
)
def test_kustomize_builds_the_overlays(overlay: str, kinds: set[str]) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which has Kustomize, is not here")
    command = ["kubectl", "kustomize", str(KUSTOMIZE / "overlays" / overlay)]
    built = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    objects = [YAML(typ="safe").load(text) for text in built.split("\n---\n")]
    assert {each["kind"] for each in objects} == kinds
    assert len({each["metadata"]["namespace"] for each in objects}) == 1
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    variables = {variable["name"] for variable in container["env"]}
    assert ("MEMORANDA_OIDC_ISSUER" in variables) == (overlay == "production")
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_the_dashboard_asks_only_for_measures_and_labels_that_there_are() -> None:
    board = parse((ROOT / "deploy" / "grafana" / "memoranda.json").read_bytes())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked.append(board["templating"]["list"][1]["query"])
    endings = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    known = {f"{each.name}{end}": each for each in FAMILIES.values() for end in endings[each.kind]}
    used = set()
    for expression in asked:
        found = re.findall(r"\b(?:memoranda|process)_\w+", expression)
        assert found
        assert set(found) <= set(known), expression
        labels = {label for name in found for label in known[name].labels} | {"instance", "le"}
        grouped = {word.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for word in group.split(",")}
        assert grouped | set(re.findall(r"([a-z]+)=~", expression)) <= labels, expression
        used |= {known[name].name for name in found}
    assert used == set(FAMILIES)
