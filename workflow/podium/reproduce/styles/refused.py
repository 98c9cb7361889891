"""Implementations that nobody outside can start, and why: found by what their scripts say."""

from __future__ import annotations

import re

from podium.reproduce.folder import Folder
from podium.reproduce.styles.style import Style

REASONS = (
    (r"\$\{INTERNAL", "its scripts start programs of one company's cluster: ${INTERNAL} stands for what was cut out"),
    (
        r"\bmodelarts\b|\bhccl\b|[Aa]scend|cfgs/tot_",
        "it runs on a one-off service: Ascend processors of one cloud (ModelArts)",
    ),
    (
        r"create_submission\.py|\bpoprun\b|IPUOF_|partition_id|\bipu\b",
        "it needs Graphcore IPUs with the Poplar SDK, and ssh to the storage hosts with a password file; training and "
        "validation are two programs",
    ),
    (r"docker ps .*\| *xargs.*docker (stop|kill|rm)", "its start script stops every container of the node"),
)


def detect(folder: Folder) -> Style | None:
    """Only the scripts that start something are looked at, so that a word in a library refuses nothing."""
    scripts = folder.matching("run*.sh", "launch*.sh", "setup.sh", "docker_run.sh", "run.sub")
    for pattern, reason in REASONS:
        for name in scripts:
            if re.search(pattern, folder.code(name)):
                return Style("refused", refused=f"{reason} ({name})")
    return None


def nothing(folder: Folder) -> Style:
    """No style knows it."""
    names = [*folder.names(), *(item.name + "/" for item in folder.folders())]
    found = ", ".join(names[:6]) or "an empty folder"
    what = (
        "it is documentation only" if set(names) and all(_papers(name) for name in names) else "no script starts a run"
    )
    return Style("none", refused=f"{what}: {found}")


def _papers(name: str) -> bool:
    return name.lower().endswith((".md", ".txt", ".json", ".pdf", ".png")) or name in ("LICENSE", "NOTICE")
