"""A file from a server on this machine, against `curl` and then `md5sum`, by the clock.

Podium computes sha256 beside the published md5 and syncs the file to the disk; curl and md5sum do neither.
"""

from __future__ import annotations

import http.server
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from measure import Bench

from podium import files
from podium.config import Transfer
from podium.data.transfer import Wanted
from podium.data.transfer.gather import gather

BYTES = 1 << 30


class Handler(http.server.BaseHTTPRequestHandler):
    """A file or a range of it, out of the page cache with sendfile, so that the server is no limit."""

    protocol_version = "HTTP/1.1"
    folder: Path

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        with (self.folder / self.path.removeprefix("/")).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            start, stop = (int(asked[1]), int(asked[2]) + 1) if asked else (0, size)
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
            self.send_header("Content-Length", str(stop - start))
            self.send_header("ETag", '"1"')
            self.end_headers()
            self.wfile.flush()
            while start < stop:
                start += os.sendfile(self.connection.fileno(), file.fileno(), start, stop - start)


def serve(folder: Path) -> None:
    """Serve a folder for ever; the first line of standard output is the port."""
    Handler.folder = folder
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


def run(bench: Bench, scratch: Path) -> None:
    if not shutil.which("curl"):
        bench.skip("fetch", "no curl")
        return
    source, to = scratch / "source", scratch / "to"
    source.mkdir()
    with (source / "data").open("wb") as file:
        for _ in range(BYTES >> 20):
            file.write(os.urandom(1 << 20))
    os.sync()
    md5 = files.hash_file(source / "data", "md5")
    command = [sys.executable, __file__, str(source)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = f"http://127.0.0.1:{server.stdout.readline().strip()}/data"
            costs = bench.costs({"curl": lambda: curl(url, to), "ours": lambda: ours(url, md5, to)}, to)
        finally:
            server.terminate()
    curls, podiums = costs["curl"].wall, costs["ours"].wall
    bench.step("fetch", curls / podiums, 0.8, f"{BYTES >> 20} MiB: {podiums:.2f} s, curl and md5sum {curls:.2f} s")


def curl(url: str, to: Path) -> None:
    subprocess.run(["curl", "--silent", "--fail", "--output", to / "data", url], check=True)
    subprocess.run(["md5sum", to / "data"], check=True, stdout=subprocess.DEVNULL)


def ours(url: str, md5: str, to: Path) -> None:
    gather(to / "raw", [Wanted("data", (url,), BYTES, {"md5": md5})], Transfer(8, None), "bench", "")


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
