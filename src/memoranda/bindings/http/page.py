"""Pages for people: plain HTML with one style and no script, and the one that a browser gets at `/`."""

from __future__ import annotations

import base64
import hashlib
import html
from importlib.metadata import version
from typing import Final

from memoranda.bindings.http import wire
from memoranda.bindings.http.call import Answer, Call
from memoranda.service.service import Service

MEDIA_TYPE: Final = "text/html; charset=utf-8"

_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:34em;margin:4em auto;padding:0 1em}"
    "pre{overflow-x:auto;padding:.6em;border:1px solid light-dark(#ccc,#555);border-radius:.3em}"
    "input{width:100%;box-sizing:border-box;font:inherit;padding:.4em}"
    "button{font:inherit;padding:.4em 1.2em;margin:1em 1em 0 0}.wrong{color:light-dark(#a00,#f77)}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

# What a stranger may read, and what it is about.
_OPEN: Final = (
    ("/ump/capabilities", "what it speaks of the Universal Memory Protocol"),
    ("/.well-known/openwop", "and of openwop agent memory"),
    ("/openapi.json", "every request of all standards, as an OpenAPI document"),
    ("/healthz", "whether the server is alive"),
)


def page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Memoranda: {html.escape(title)}</title><style>{_STYLE}</style>{body}"
    )


def page_headers(form_targets: str = "'none'") -> dict[str, str]:
    """What keeps a page to itself: no script, no frame, and forms that go only where they should."""
    policy = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'"
    return {
        "Content-Security-Policy": f"{policy}; form-action {form_targets}",
        "X-Frame-Options": "DENY",
        # With no-referrer browsers would not say where a form comes from either.
        "Referrer-Policy": "same-origin",
    }


def welcome(_service: Service, call: Call, _asked: None) -> Answer:
    """What this is and how to use it, for whoever opens the address in a browser; nothing of anybody's memory."""
    base = html.escape(wire.base_url(call.scope))
    links = "".join(f'<li><a href="{path}">{path}</a>: {what}</li>' for path, what in _OPEN)
    body = (
        f"<h1>Memoranda</h1><p>The memory of AI agents, kept by the people it belongs to. Version "
        f"{version('memoranda')} is running here. To read or write, a program shows a key, which you make on the "
        "machine of the server:</p><pre>memoranda key add laptop</pre>"
        f'<p>Then ask:</p><pre>curl {base}/ump/recall \\\n  -H "Authorization: Bearer $KEY" '
        '-H "Content-Type: application/json" \\\n  -d \'{"query": "which package manager?"}\'</pre>'
        '<p>In this browser: <a href="/console/">the console</a>.</p>'
        f"<p>An agent that speaks MCP is connected at <code>{base}/mcp</code>, or on the machine itself with the "
        f"command <code>memoranda mcp</code>. Open to everybody:</p><ul>{links}</ul>"
    )
    headers = tuple(
        (name.lower().encode(), value.encode()) for name, value in page_headers().items()
    )
    return Answer(
        body=page("the memory of your agents", body).encode(),
        media_type=MEDIA_TYPE,
        headers=headers,
    )
