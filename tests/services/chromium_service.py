"""A headless Chromium, driven by its DevTools protocol through a pipe: no driver, no port, no profile left behind."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.service import absent

PATIENCE = 60  # seconds for one answer; a machine can be busy
NAMES = ("chromium", "chromium-browser", "google-chrome")


class Page:
    """One page in the browser, and what happened on it: `requests`, `errors` of script and console."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._loaded = False
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command of the protocol; events that come before it are taken in."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == number:
                assert "error" not in told, f"{method}: {told['error']}"
                return told["result"]

    def open(self, path: Path, width: int, height: int = 900, dark: bool = False) -> None:
        """Load a file at a width in CSS pixels, in light or dark."""
        self._loaded = False
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=path.absolute().as_uri())
        while not self._loaded:
            self._next()

    def value(self, script: str) -> Any:
        """What an expression of JavaScript comes to on the page; a promise is waited for."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def point_at(self, x: float, y: float) -> None:
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        picture = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def _next(self) -> dict[str, Any]:
        """The next message, after what it says of the page was noted."""
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self._answers], [], [], left)[0], "Chromium does not answer"
            piece = os.read(self._answers, 1 << 20)
            assert piece, "Chromium has ended"
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        told = json.loads(text)
        event, facts = told.get("method"), told.get("params", {})
        if event == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])
        elif event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(facts["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(facts["args"]))
        elif event == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
            self.errors.append(facts["entry"]["text"])
        return told


@pytest.fixture
def page() -> Iterator[Page]:
    """An empty page of a Chromium of its own."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        absent("chromium", "not on the PATH; Debian: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="podium-chromium-") as profile:
        to_browser, commands = os.pipe()
        answers, from_browser = os.pipe()
        words = [
            program,
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ]
        words += ["--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars"]
        words += [f"--user-data-dir={profile}"]
        # The browser reads from descriptor 3 and writes to 4.
        script = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        browser = subprocess.Popen(
            ["bash", "-c", script, "bash", *words],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            yield Page(commands, answers)
        finally:
            os.close(commands)
            browser.terminate()
            browser.wait(timeout=30)
            os.close(answers)
