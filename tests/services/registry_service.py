"""A registry on loopback, from Debian's package; and one before it that goes wrong as it is told."""

from __future__ import annotations

import contextlib
import http.server
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.service import absent

CONFIG = """version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@pytest.fixture(scope="session")
def registry() -> Iterator[str]:
    """The address (`127.0.0.1:PORT`) of an empty registry."""
    if shutil.which("docker-registry") is None:
        absent("registry", "not on the PATH; Debian: apt-get install docker-registry")
    with tempfile.TemporaryDirectory(prefix="podium-registry-") as place:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        config = Path(place) / "config.yml"
        config.write_text(CONFIG.format(folder=place, port=port))
        log = Path(place) / "log"
        with log.open("wb") as writer:
            server = subprocess.Popen(["docker-registry", "serve", config], stdout=writer, stderr=writer)
        try:
            deadline = time.monotonic() + 30
            while not _answers(port):
                if server.poll() is not None or time.monotonic() > deadline:
                    absent("registry", "it does not start:\n" + log.read_text()[-2000:])
                time.sleep(0.05)
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(timeout=30)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=2).status == 200
    return False


# As the distribution specification words them.
ERRORS = {
    401: '{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}',
    404: '{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}',
    429: '{"errors": [{"code": "TOOMANYREQUESTS", "message": "you have reached your pull rate limit"}]}',
}
JSON = {"Content-Type": "application/json"}


class Faulty:
    """A registry that hands everything on to a good one, but for what `fault` says: a status for every manifest, or
    `cut`, which ends the answer in the middle of each layer."""

    def __init__(self, address: str) -> None:
        self.fault: int | str | None = None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if isinstance(outer.fault, int) and "/manifests/" in self.path:
                    return self._answer(outer.fault, ERRORS.get(outer.fault, "planted").encode(), JSON)
                headers = {"Accept": value} if (value := ", ".join(self.headers.get_all("Accept") or [])) else {}
                request = urllib.request.Request(f"http://{address}{self.path}", headers=headers, method=self.command)
                try:
                    with urllib.request.urlopen(request, timeout=30) as found:
                        status, body, about = found.status, found.read(), found.headers
                except urllib.error.HTTPError as error:
                    status, body, about = error.code, error.read(), error.headers
                kept = ("Content-Type", "Docker-Content-Digest", "Docker-Distribution-Api-Version")
                return self._answer(status, body, {name: about[name] for name in kept if about[name]})

            do_HEAD = do_GET

            def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status == 401:
                    self.send_header("WWW-Authenticate", 'Basic realm="planted"')
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "HEAD":
                    return
                if outer.fault == "cut" and "/blobs/" in self.path and len(body) > 200:
                    self.wfile.write(body[: len(body) // 2])
                    self.close_connection = True
                    return
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"


@pytest.fixture
def faulty(registry: str) -> Iterator[Faulty]:
    """A registry before the good one, without a fault to begin with."""
    found = Faulty(registry)
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()
