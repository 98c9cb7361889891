"""A web server on loopback that goes wrong as it is told: what sources do to those who fetch from them."""

from __future__ import annotations

import contextlib
import http.server
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

PAGE = b"<html><form action='/login'>Sign in</form></html>"


@dataclass
class Server:
    """`files` by path. `faults` are taken one a request, then all is well; "" is a request that goes well.

    CODE, "CODE after S" with Retry-After, cut@N (N bytes, then the connection is closed), stall@N (N bytes, then
    nothing until `released`), norange (the whole file), badrange (says other bytes than it gives), page (a login page
    with status 200), cloudflare (a redirect to Cloudflare's), redirect, loop, changed (from then on another content and
    tag), flip@N (one wrong byte), untagged, nolength (the end of the connection ends the file), gzip (labelled as
    compressed).
    """

    files: dict[str, bytes] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    always: str = ""  # the fault of every request when `faults` are used up
    ranges: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    sent: int = 0
    when_sent: Callable[[int], None] = lambda sent: None  # called after each piece with the bytes sent so far
    version: int = 1
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, path: str, headers: dict[str, str]) -> str:
        with self.lock:
            self.paths.append(path)
            self.ranges.append(headers.get("Range"))
            self.headers.append(headers)
            return self.faults.pop(0) if self.faults else self.always

    def count(self, more: int) -> None:
        with self.lock:
            self.sent += more
            sent = self.sent
        self.when_sent(sent)


@contextlib.contextmanager
def serve(files: dict[str, bytes]) -> Iterator[Server]:
    """Serve `files` until the end of the block."""
    state = Server(dict(files))

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)  # so that `sent` is about what came
            super().setup()

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            path = self.path.removeprefix("/")
            fault, _, argument = state.fault(path, dict(self.headers)).partition("@")
            number = int(argument or 0)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                _answer(self, state, path, fault, number)

    class Quiet(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # those who fetch may go away at any time
                super().handle_error(*_)

    with Quiet(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        state.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield state
        finally:
            state.released.set()
            server.shutdown()


def _answer(handler: http.server.BaseHTTPRequestHandler, state: Server, path: str, fault: str, number: int) -> None:
    code = re.match(r"(\d{3})(?: after (.+))?", fault)
    if code:
        return _plain(handler, int(code[1]), b"no", **({"Retry-After": code[2]} if code[2] else {}))
    if fault == "page":
        return _plain(handler, 200, PAGE, **{"Content-Type": "text/html; charset=utf-8"})
    if fault == "cloudflare":
        return _plain(handler, 302, b"", Location="https://team.cloudflareaccess.com/cdn-cgi/access/login/x?kid=1")
    if fault in ("redirect", "loop"):
        return _plain(handler, 302, b"", Location=handler.path)
    if fault == "changed":
        state.version += 1
        state.files[path] = state.files[path][::-1]
    if path not in state.files:
        return _plain(handler, 404, b"no such file")
    content = state.files[path]
    if fault == "flip":
        content = content[:number] + bytes([content[number] ^ 255]) + content[number + 1 :]
    wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", handler.headers.get("Range", ""))
    if wanted and not content:
        return _plain(handler, 416, b"", **{"Content-Range": "bytes */0"})
    start, stop = (int(wanted[1]), int(wanted[2]) + 1) if wanted and fault != "norange" else (0, len(content))
    handler.protocol_version = "HTTP/1.0" if fault == "nolength" else "HTTP/1.1"
    handler.send_response(206 if wanted and fault not in ("norange", "nolength") else 200)
    if wanted and fault not in ("norange", "nolength"):
        shift = 7 if fault == "badrange" else 0
        handler.send_header("Content-Range", f"bytes {start + shift}-{stop - 1}/{len(content)}")
    if fault == "nolength":
        start, stop = 0, len(content)
        handler.close_connection = True
    else:
        handler.send_header("Content-Length", str(stop - start))
    if fault == "gzip":
        handler.send_header("Content-Encoding", "gzip")
    if fault != "untagged":
        handler.send_header("ETag", f'"{path}-{state.version}"')
    handler.end_headers()
    limit = start + number if fault in ("cut", "stall") else stop
    while start < min(stop, limit):
        piece = content[start : min(start + (1 << 14), stop, limit)]
        handler.wfile.write(piece)
        start += len(piece)
        state.count(len(piece))
    if fault == "stall":
        handler.wfile.flush()
        state.released.wait()
    if limit < stop or fault == "stall":
        handler.close_connection = True
    return None


def _plain(handler: http.server.BaseHTTPRequestHandler, code: int, body: bytes, **headers: str) -> None:
    handler.send_response(code)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
