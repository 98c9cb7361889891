"""A long command of an engine: its steps counted as progress, its words kept, their cause found when it fails."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from podium.progress import counter


@dataclass(frozen=True)
class Said:
    """How a command ended, and its standard output and error together."""

    status: int
    text: str

    def last(self, lines: int) -> list[str]:
        """The last lines that are not empty."""
        return [line for line in self.text.splitlines() if line.strip()][-lines:]


def watch(
    command: Sequence[str],
    what: str,
    step: str,
    log: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Said:
    """Run a command to its end; lines that match `step` count as progress, and all of them go to `log` too.

    It is told to stop (SIGTERM) when this process is interrupted, and waited for.
    """
    lines: list[str] = []
    with ExitStack() as stack:
        writer = stack.enter_context(log.open("w", encoding="utf-8")) if log else None
        done = stack.enter_context(counter(what, None, "step"))
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env=os.environ | dict(environment or {}),
        )
        try:
            for line in process.stdout:
                lines.append(line)
                if writer:
                    writer.write(line)
                    writer.flush()
                done(1 if re.match(step, line) else 0)
        except BaseException:
            process.terminate()
            raise
        finally:
            status = process.wait()
    return Said(status, "".join(lines))


@dataclass(frozen=True)
class Cause:
    """What words of engines, registries, pip or apt mean, what to do, and whether the machine is at fault."""

    words: str
    meaning: str
    advice: str
    machine: bool = False


CAUSES = (
    Cause("no space left on device", "the disk is full", "free space in the engine's store (docker system df)", True),
    Cause(
        "cannot connect to the docker daemon|dial unix .*(no such file|connection refused)",
        "the daemon is down",
        "start it (systemctl start docker), or set DOCKER_HOST",
        True,
    ),
    Cause(
        "permission denied while trying to connect|dial unix .*permission denied",
        "no permission to talk to the daemon",
        "join the group docker, or use engine podman",
        True,
    ),
    Cause(
        "exec format error|no matching manifest", "the image is of another architecture", "take one of this machine's"
    ),
    Cause("toomanyrequests|too many requests", "the registry allows no more for now", "log in to it, or wait", True),
    Cause(
        r"unauthorized|authentication required|no basic auth|access denied|denied: |\b403 forbidden",
        "the registry wants a login, or gives this to others alone",
        "docker login REGISTRY (podman login)",
        True,
    ),
    Cause(
        r"(status|code|http)\w*:? ?5\d\d|service unavailable|bad gateway|internal server error",
        "the registry fails",
        "try again later",
        True,
    ),
    Cause(
        "unexpected eof|verification failed|digest mismatch|did not match|layer.*invalid|checksum",
        "what came is not the whole",
        "try again; layers that came are kept",
        True,
    ),
    Cause(
        "temporary failure (in name )?resol|could not resolve|no such host|network is unreachable|i/o timeout"
        "|newconnectionerror|connection (refused|timed out|reset)|tls handshake|server gave http response to https",
        "the network, or the registry, cannot be reached",
        "try again when it can; podium build --offline takes wheels from the context",
        True,
    ),
    Cause(
        r"manifest unknown|name unknown|pull access denied|: not found$",
        "it is not there",
        "look at the name and its digest",
    ),
    Cause(
        "no matching distribution|version '.*' for '.*' was not found|unable to locate package",
        "a pin is gone: that version is not to be had",
        "mend the pin",
    ),
    Cause("permission denied", "no permission", "look at the step that failed"),
)


def cause(text: str, otherwise: str) -> Cause:
    """The likely cause of a failure, from its own words; `otherwise` is the advice where none is known."""
    told = text.lower()
    found = next((item for item in CAUSES if re.search(item.words, told, re.MULTILINE)), None)
    return found or Cause("", "see the last lines", otherwise)
