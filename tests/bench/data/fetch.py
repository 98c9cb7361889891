"""`podium fetch` from a server on this machine against `curl` and `sha256sum`, by the clock.

A copy of the package with another catalog fetches, so that the whole command is measured, with its manifest.
"""

from __future__ import annotations

import hashlib
import http.server
import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from measure import MEMORY, Bench

from podium import config as configuration

BYTES = 1 << 29
CONFIG = {
    "root": "work",
    "submission": {"org": "bench", "division": "open", "round": "3.1.0", "status": "research"},
    "systems": {"here": {"nodes": 1, "gpus_per_node": 0}},
    "results": [{"system": "here", "benchmark": "rnnt", "implementation": "containers/rnnt", "config": "tiny"}],
    "data": {"sets": {"librispeech": {"source": "catalog", "layout": "wav"}}},
}


class Ranges(http.server.BaseHTTPRequestHandler):
    """One file, whole or in ranges, by sendfile."""

    protocol_version = "HTTP/1.1"
    path_served: Path

    def do_HEAD(self) -> None:
        self._answer(False)

    def do_GET(self) -> None:
        self._answer(True)

    def _answer(self, body: bool) -> None:
        size = self.path_served.stat().st_size
        first, last = 0, size - 1
        if asked := self.headers.get("Range"):
            start, _, stop = asked.removeprefix("bytes=").partition("-")
            first, last = int(start), int(stop or last)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", '"one"')
        self.end_headers()
        if body:
            with self.path_served.open("rb") as file:
                self.wfile.flush()
                try:
                    self.connection.sendfile(file, first, last - first + 1)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


def serve(path: Path, port: multiprocessing.Queue) -> None:
    Ranges.path_served = path
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ranges) as server:
        port.put(server.server_port)
        server.serve_forever()


def run(bench: Bench, scratch: Path) -> None:
    if not shutil.which("curl"):
        bench.skip("fetch", "no curl")
        return
    served = (MEMORY if MEMORY.is_dir() else scratch) / f"{scratch.name}-served"
    digest = hashlib.sha256()
    with served.open("wb") as file:
        for _ in range(BYTES >> 20):
            piece = os.urandom(1 << 20)
            digest.update(piece)
            file.write(piece)
    context = multiprocessing.get_context("spawn")
    port = context.Queue()
    server = context.Process(target=serve, args=(served, port), daemon=True)
    server.start()
    try:
        _compare(bench, scratch, f"http://127.0.0.1:{port.get()}/file", digest.hexdigest())
    finally:
        server.terminate()
        served.unlink()


def _compare(bench: Bench, scratch: Path, address: str, sha256: str) -> None:
    package = scratch / "workflow"
    shutil.copytree(configuration.WORKFLOW, package)
    catalog = package / "catalog" / "datasets" / "librispeech.yaml"
    entry = yaml.safe_load(catalog.read_text(encoding="utf-8"))
    entry["files"] = [{"path": "train-clean-100.tar.gz", "bytes": BYTES, "sha256": sha256, "sources": [address]}]
    catalog.write_text(yaml.safe_dump(entry), encoding="utf-8")
    (scratch / "config.yaml").write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(package), "no_proxy": "127.0.0.1"}

    def ours() -> None:
        shutil.rmtree(scratch / "work", ignore_errors=True)
        command = [sys.executable, "-m", "podium", "fetch", "librispeech", "--config", "config.yaml"]
        subprocess.run(command, cwd=scratch, env=environment, check=True, stdout=subprocess.DEVNULL)

    def curl() -> None:
        command = f"curl -sSf -o got {address} && sync got && sha256sum got >/dev/null && rm got"
        subprocess.run(["bash", "-c", command], cwd=scratch, env=environment, check=True)

    costs = bench.costs({"curl": curl, "ours": ours})
    how = f"{BYTES >> 20} MiB: {costs['ours'].wall:.2f} s, curl and sha256sum {costs['curl'].wall:.2f} s"
    bench.step("fetch", costs["curl"].wall / costs["ours"].wall, 0.8, how)
