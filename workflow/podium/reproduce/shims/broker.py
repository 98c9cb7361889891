"""The broker outside: it hears what foreign scripts call (client.py) and does what the translators make of it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from podium.reproduce import sandbox
from podium.reproduce.shims import docker, others, slurm
from podium.reproduce.shims.policy import Answer, Call, Containers, Execute, Outcome, Policy, Translator

TRANSLATORS: Mapping[str, Translator] = {
    "docker": docker.translate,
    "nvidia-docker": docker.translate,
    "podman": docker.translate,
    "srun": slurm.srun,
    "scontrol": slurm.scontrol,
    "sudo": others.sudo,
    "module": others.module,
    "singularity": others.apptainer,
    "apptainer": others.apptainer,
}
LONGEST = 8 << 20  # bytes of a request
SOCKET = "broker"
CLIENT = Path(__file__).with_name("client.py")  # a program, not to be imported


def install(folder: Path) -> None:
    """Make the folder of shims: each name is the client, started by the Python that runs us."""
    folder.mkdir(parents=True, exist_ok=True)
    text = CLIENT.read_text(encoding="utf-8")
    for name in TRANSLATORS:
        path = folder / name
        path.write_text(f"#!{Path(sys.executable).resolve()} -IS\n{text}", encoding="utf-8")
        path.chmod(0o755)


@contextlib.contextmanager
def listening(folder: Path, policy: Policy, log: Path) -> Iterator[None]:
    """Answer calls while the block runs; `log` gets a line for each, and containers that are left are removed."""
    containers = Containers()
    path = folder / SOCKET
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        # A socket's path may have 108 bytes: it is bound from within its folder, through a short name.
        with _inside(folder):
            server.bind(SOCKET)
        server.listen(64)
        threading.Thread(target=_accept, args=(server, policy, containers, log), daemon=True).start()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            if policy.engine in ("docker", "podman") and containers.known:
                names = [policy.prefix + name for name in containers.known]
                subprocess.run([policy.engine, "rm", "--force", "--volumes", *names], capture_output=True, check=False)


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _accept(server: socket.socket, policy: Policy, containers: Containers, log: Path) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:  # closed: the run has ended
            return
        threading.Thread(target=_serve, args=(connection, policy, containers, log), daemon=True).start()


def _serve(connection: socket.socket, policy: Policy, containers: Containers, log: Path) -> None:
    with connection:
        head, handles, _, _ = socket.recv_fds(connection, 8, 3)
        try:
            if len(handles) != 3:
                return
            call = _call(connection, int.from_bytes(head, "big"))
            status = 125
            if call is not None:
                outcome = TRANSLATORS.get(call.words[0], others.module)(call, policy, containers)
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"asked": call.words, "done": _told(outcome)}) + "\n")
                status = _do(outcome, handles, log.parent)
            with contextlib.suppress(OSError):
                connection.sendall(str(status).encode())
        finally:
            for handle in handles:
                os.close(handle)


def _call(connection: socket.socket, size: int) -> Call | None:
    if not 0 < size <= LONGEST:
        return None
    content = b""
    while len(content) < size and (piece := connection.recv(size - len(content))):
        content += piece
    try:
        value = json.loads(content)
        return Call(tuple(map(str, value["words"])), dict(value["environment"]), str(value["folder"]))
    except (ValueError, KeyError, TypeError):
        return None


def _do(outcome: Outcome, handles: list[int], home: Path) -> int:
    """Do it with the caller's own files as input and output; the status."""
    given, output, errors = handles
    if isinstance(outcome, Answer):
        if outcome.text:
            to = errors if outcome.text.startswith("podium:") else output
            with contextlib.suppress(OSError):
                os.write(to, outcome.text.encode() + b"\n")
        return outcome.status
    if isinstance(outcome, Execute):
        line = list(outcome.words)
    else:
        line = [*outcome.before, *sandbox.line(outcome.inside, str(home / "root"))]
    try:
        return subprocess.run(line, stdin=given, stdout=output, stderr=errors, check=False).returncode
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(errors, f"podium: {line[0]}: {error.strerror}\n".encode())
        return 127


def _told(outcome: Outcome) -> object:
    if isinstance(outcome, Answer):
        return outcome.text or f"status {outcome.status}"
    if isinstance(outcome, Execute):
        return outcome.words
    return [*outcome.before, "(shut in)", *outcome.inside.command]
