"""schemathesis reads the OpenAPI document and asks what it says, and what it does not: no answer is a surprise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.bindings.http.running import Running
from tests.waiting import HANG_SECONDS

from memoranda.bindings.http.app import all_operations
from memoranda.bindings.http.openapi import build_document, operation_parameters
from memoranda.bindings.http.operation import Operation
from memoranda.bindings.http.protocol import HEAD_BYTES_LIMIT

OPERATIONS = all_operations()
# The headers that the session adds, generously.
OWN_HEAD_BYTES = 2_048
SCHEMA = schemathesis.openapi.from_dict(build_document(OPERATIONS, server_version="0"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# Here whatever the schemas do not allow is refused, too. The others take longer names than they promise, and JSON-RPC
# refuses with status 200.
STRICT = ("oams_store", "oams_get", "oams_forget", "oams_list", "oams_batch_store", "oams_recall")
# Streams have their own tests: one has no end, and of the other the first event comes before its status is known.
STREAMS = ("subscribe", "cal_stream", "openwop_all_events")
ASKABLE = [
    pytest.param(operation, mode, id=f"{operation.name}-{mode.value}")
    for operation in OPERATIONS
    if operation.name not in STREAMS
    for mode in GenerationMode
    # Where nothing is asked, nothing can be asked wrongly.
    if mode is GenerationMode.POSITIVE or operation.asks or operation.body or operation_parameters(operation)
]
EXAMPLES = settings(
    max_examples=12,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def session(server: Running) -> Iterator[requests.Session]:
    with requests.Session() as opened:
        opened.headers["Authorization"] = f"Bearer {server.key()}"
        # What this machine keeps for other programs is not sent along.
        opened.trust_env = False
        yield opened


def head_bytes(case: Any, address: str) -> int:
    """Count the bytes of the URL and headers of a request. Over its limit the server hangs up without an answer."""
    request = requests.Request(**case.as_transport_kwargs(base_url=address)).prepare()
    return len(request.url or "") + sum(len(name) + len(value) + 4 for name, value in request.headers.items())


@pytest.mark.parametrize(("operation", "mode"), ASKABLE)
@pytest.mark.requirement("OAMS-OURS-openapi")
def test_every_answer_is_as_the_document_says(
    server: Running, session: requests.Session, operation: Operation, mode: GenerationMode
) -> None:
    checks = [*CHECKS, negative_data_rejection] if operation.name in STRICT else CHECKS
    described = SCHEMA[operation.path][operation.method]

    @EXAMPLES
    @given(case=described.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        # Without these, another version of the standard answers.
        case.headers.update(operation.standard.selected_by)
        assume(head_bytes(case, server.url) < HEAD_BYTES_LIMIT - OWN_HEAD_BYTES)
        case.call_and_validate(base_url=server.url, session=session, checks=checks, timeout=HANG_SECONDS)

    ask()
