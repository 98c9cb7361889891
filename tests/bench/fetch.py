"""The fetch step of `make bench-data`: a file from a server on this machine, against `curl` and then `md5sum`.

`bench data fetch value=<times as fast> bar=0.8 ok|short`: the best of each of several rounds that take both in turn, as
others may use the machine too. Podium computes sha256 beside the published md5 and syncs the file to the disk; curl and
md5sum do neither.
"""

from __future__ import annotations

import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from podium import files
from podium.config import Transfer
from podium.data.transfer import Wanted
from podium.data.transfer.gather import gather

BYTES, ROUNDS, BAR = 1 << 30, 5, 0.8


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


def seconds(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


def ratio(folder: Path) -> float:
    """How many times as fast Podium is as `curl` and then `md5sum`, with all files below `folder`."""
    source = folder / "source"
    source.mkdir()
    with (source / "data").open("wb") as file:
        for _ in range(BYTES >> 20):
            file.write(os.urandom(1 << 20))
    os.sync()
    md5 = files.hash_file(source / "data", "md5")
    command = [sys.executable, __file__, "serve", str(source)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = f"http://127.0.0.1:{server.stdout.readline().strip()}/data"
            rounds = [_round(folder, url, md5) for _ in range(ROUNDS)]
            return min(peer for peer, _ in rounds) / min(ours for _, ours in rounds)
        finally:
            server.terminate()


def _round(folder: Path, url: str, md5: str) -> tuple[float, float]:
    """Seconds of curl and md5sum, and of Podium."""

    def peer() -> None:
        subprocess.run(["curl", "--silent", "--fail", "--output", folder / "peer", url], check=True)
        subprocess.run(["md5sum", folder / "peer"], check=True, stdout=subprocess.DEVNULL)

    def podium() -> None:
        item = Wanted("data", (url,), BYTES, {"md5": md5})
        gather(folder / "ours" / "raw", [item], Transfer(8, None), "bench", "")

    times = []
    for action in (peer, podium):
        times.append(seconds(action))
        (folder / "peer").unlink(missing_ok=True)
        shutil.rmtree(folder / "ours", ignore_errors=True)
        os.sync()  # what one left to be written is not the other's burden
    print(f"    curl + md5sum {times[0]:.2f} s, podium {times[1]:.2f} s", file=sys.stderr)
    return times[0], times[1]


def main() -> int:
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]))
        return 0
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as place:
        value = ratio(Path(place))
    print(f"bench data fetch value={value:.2f} bar={BAR} {'ok' if value >= BAR else 'short'}")
    return value < BAR


if __name__ == "__main__":
    sys.exit(main())
