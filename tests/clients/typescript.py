"""Build and pack the TypeScript client, and run its tests: python -m tests.clients.typescript FOLDER.

The tests run in Node, Deno, Bun and, if it is installed, Chromium, each with a memory of its own. The folder has the
compiler, the linters of packages, Deno and Bun (`make bring-typescript`). This is `make test-typescript`, because it
needs Node and npm.
"""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlencode

from tools.npm_package import build, pack

from tests.bindings.http.running import Running, running

SECONDS = 300
TESTS = ("test/client.test.mjs", "test/calls.test.mjs", "test/required.test.cjs")
RUNTIMES = {
    "node": ["node", "--test", "--test-reporter=dot", *TESTS],
    "deno": ["deno", "test", "--allow-net", "--allow-env", "--allow-read", "--no-check", "--quiet", *TESTS],
    "bun": ["bun", "test", *(f"./{name}" for name in TESTS)],
}


def main(folder: Path) -> int:
    """Return 0 if all is well, else how the worst of the tests ended."""
    build(folder)
    print(f"packed {pack(folder).name}")
    with (
        _pages(folder) as origin,
        tempfile.TemporaryDirectory() as home,
        running(Path(home), allowed_origins=(origin,)) as server,
    ):
        ended = {name: _tested(name, folder, server) for name in RUNTIMES}
        ended["browser"] = _browsed(origin, server)
    print("; ".join(f"{name}: {'all is well' if code == 0 else f'ended with {code}'}" for name, code in ended.items()))
    return max(ended.values())


def _tested(name: str, folder: Path, server: Running) -> int:
    """How the tests ended in one of them."""
    environment = {**os.environ, "MEMORANDA_URL": server.url, "MEMORANDA_KEY": server.key(f"did:example:{name}")}
    environment["PATH"] = f"{folder.absolute() / 'node_modules' / '.bin'}{os.pathsep}{environment['PATH']}"
    print(f"--- {name}", flush=True)
    return subprocess.run(RUNTIMES[name], cwd=folder, env=environment, timeout=SECONDS).returncode


class _Page(SimpleHTTPRequestHandler):
    """Serves the client and the page that uses it, and takes the page's report."""

    reports: ClassVar[queue.SimpleQueue[str]] = queue.SimpleQueue()

    def do_POST(self) -> None:
        self.reports.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()


@contextmanager
def _pages(folder: Path) -> Iterator[str]:
    """Where a browser finds the client and the page that uses it: another origin than the server's."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Page, directory=str(folder))) as pages:
        thread = threading.Thread(target=pages.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{pages.server_port}"
        pages.shutdown()
        thread.join()


def _browsed(origin: str, server: Running) -> int:
    """How it ended in Chromium, if there is one."""
    print("--- browser", flush=True)
    program = shutil.which("chromium")
    if program is None:
        print("there is no Chromium: the client is not tried in a browser")
        return 0
    asked = urlencode({"url": server.url, "key": server.key("did:example:browser")})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        # A port for debugging keeps it running until the page has reported, in its own time.
        command = [program, *options, "--remote-debugging-port=0", f"{origin}/test/page.html?{asked}"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            report = _Page.reports.get(timeout=SECONDS)
        except queue.Empty:
            report = "it did not end"
        finally:
            browser.terminate()
            browser.wait()
    print(report)
    return 0 if report == "ended: created, not found" else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
