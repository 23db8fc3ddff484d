"""Who is told of events without asking (openwop webhooks.md): registered, listed, taken away."""

from __future__ import annotations

from typing import Any, Final

from memoranda.bindings.http.call import Call
from memoranda.bindings.http.deliver import check_url
from memoranda.bindings.http.openwop import OPENWOP
from memoranda.errors import NotFound
from memoranda.service.service import Service
from memoranda.standards.openwop.requests import RegisterWebhookRequest, UnregisterWebhookRequest


def register(service: Service, call: Call, asked: RegisterWebhookRequest) -> dict[str, Any]:
    check_url(asked.url, is_private_allowed=service.context.webhooks_anywhere)
    return service.openwop.register_webhook(call.access, asked.url, asked.events, asked.tags)


def listing(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"webhooks": [each.document() for each in service.openwop.webhooks(call.access)]}


def unregister(service: Service, call: Call, _asked: UnregisterWebhookRequest) -> None:
    if not service.openwop.unregister_webhook(call.access, call.name("webhook_id")):
        raise NotFound("no such webhook")


_row: Final = OPENWOP.row

OPERATIONS: Final = (
    _row(
        "POST",
        "/v1/webhooks",
        "openwop_register",
        "Post events to a URL from now on, signed; the secret is told here and never again",
        register,
        "OpenwopRegisteredWebhook",
        RegisterWebhookRequest,
        {"url": "https://hooks.example/openwop", "events": ["commitment.fired"], "tenantId": "acme"},
        success=(201,),
    ),
    _row("GET", "/v1/webhooks", "openwop_webhooks", "Who is told what, and how that goes", listing, "OpenwopWebhooks"),
    _row(
        "DELETE",
        "/v1/webhooks/{webhook_id}",
        "openwop_unregister",
        "Send nothing more there",
        unregister,
        "",
        UnregisterWebhookRequest,
        success=(204,),
    ),
)
