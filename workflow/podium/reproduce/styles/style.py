"""What a style of automation says of an implementation: how it is started, and what with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """How an implementation is started, or why it cannot be.

    `entry` is the script that starts it, from the implementation's folder; `launcher` is local or slurm; `engine` is
    docker, enroot, apptainer or process (no container). `logs` are the names that its run logs have in LOGDIR.
    `target` is the folder that a wrapper changes to, relative to its own, and `config` the config that it names.
    `network` is true where its processes speak to other nodes.
    """

    name: str
    entry: str = ""
    launcher: str = "local"
    engine: str = "docker"
    logs: tuple[str, ...] = ("*.log",)
    target: str = "."
    config: str = ""
    network: bool = False
    refused: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Start:
    """What a start line is made of. `minutes` is the time limit."""

    nodes: int
    gpus: int
    minutes: int
