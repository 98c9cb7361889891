"""What AWS Batch is asked and what its answers mean: pure functions over the shapes of its API."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podium import files
from podium.runs.launchers import ENDED, PENDING, RUNNING, Job, State, incontainer

EFA = "/dev/infiniband/uverbs0"  # the network of p4d and later, as a device of the container


# The program is part of the definition: what a submission overrides may have 8,192 bytes in all.
_PROGRAM = ("python3", "-c", "import os; exec(os.environ['PODIUM_PROGRAM'])")


@dataclass(frozen=True)
class Options:
    """`systems.<name>.aws_batch` of the config (config/README.md)."""

    queue: str
    store: str
    image: str = ""
    vcpus: int = 1
    memory_mib: int = 2048
    shared_memory_mib: int | None = None
    job_role: str | None = None
    data_path: str | None = None
    efa: int = 0
    region: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    price_per_hour: float | None = None
    poll_seconds: float = 30


def bucket(options: Options) -> tuple[str, str]:
    """Bucket and prefix of `store`, like s3://bucket/podium."""
    name, _, prefix = options.store.removeprefix("s3://").partition("/")
    return name, f"{prefix.rstrip('/')}/" if prefix else ""


def definition(job: Job, options: Options) -> dict[str, Any]:
    """The request for a job definition: a name that its content gives, so that equal ones are registered once."""
    container = _container(job, options)
    if job.nodes > 1:
        group = {"targetNodes": f"0:{job.nodes - 1}", "container": container}
        shape = {
            "type": "multinode",
            "nodeProperties": {"numNodes": job.nodes, "mainNode": 0, "nodeRangeProperties": [group]},
        }
    else:
        shape = {"type": "container", "containerProperties": container}
    request = {
        **shape,
        # Batch starting a run again would write a second run into the log of the first.
        "retryStrategy": {"attempts": 1},
        "timeout": {"attemptDurationSeconds": max(60, math.ceil(job.minutes * 60) + 300)},
        "platformCapabilities": ["EC2"],
        "propagateTags": True,
        "tags": dict(options.tags),
    }
    if not request["tags"]:
        del request["tags"]
    return {"jobDefinitionName": f"podium-{files.hash_json(request)[:20]}", **request}


def _container(job: Job, options: Options) -> dict[str, Any]:
    needs = [{"type": "VCPU", "value": str(options.vcpus)}, {"type": "MEMORY", "value": str(options.memory_mib)}]
    needs += [{"type": "GPU", "value": str(job.gpus)}] if job.gpus else []
    linux: dict[str, Any] = {}
    if options.shared_memory_mib:
        linux["sharedMemorySize"] = options.shared_memory_mib
    if options.efa:
        names = [EFA.replace("uverbs0", f"uverbs{number}") for number in range(options.efa)]
        linux["devices"] = [
            {"hostPath": name, "containerPath": name, "permissions": ["READ", "WRITE", "MKNOD"]} for name in names
        ]
    mounts = {"volumes": [], "mountPoints": []}
    if options.data_path:  # FSx for Lustre or EFS, mounted on the instances by the queue's launch template
        mounts["volumes"] = [{"name": "data", "host": {"sourcePath": options.data_path}}]
        mounts["mountPoints"] = [{"sourceVolume": "data", "containerPath": "/data", "readOnly": True}]
    return {
        "image": options.image or job.image,
        "command": [*_PROGRAM],
        "environment": [{"name": "PODIUM_PROGRAM", "value": inspect.getsource(incontainer)}],
        "resourceRequirements": needs,
        "ulimits": [{"name": name, "softLimit": -1, "hardLimit": -1} for name in ("memlock", "stack")],
        **({"linuxParameters": linux} if linux else {}),
        **({"jobRoleArn": options.job_role} if options.job_role else {}),
        **{name: value for name, value in mounts.items() if value},
    }


def submission(job: Job, options: Options, definition: str, data: str, result: str) -> dict[str, Any]:
    """The request that starts the job; `data` and `result` are signed addresses ("": the data is mounted)."""
    told = {
        "PODIUM_DATA": data,
        "PODIUM_RESULT": result,
        "PODIUM_TASKS": str(job.tasks),
        **places(options),
    }
    override = {
        "command": [*_PROGRAM, *job.command((), range(job.gpus))],
        "environment": [{"name": name, "value": value} for name, value in told.items()],
    }
    request: dict[str, Any] = {"jobName": job.name, "jobQueue": options.queue, "jobDefinition": definition}
    if job.nodes > 1:
        group = {"targetNodes": f"0:{job.nodes - 1}", "containerOverrides": override}
        request["nodeOverrides"] = {"numNodes": job.nodes, "nodePropertyOverrides": [group]}
    else:
        request["containerOverrides"] = override
    tags = {**options.tags, "podium": job.name}
    return {**request, "tags": tags, "propagateTags": True}


def places(options: Options) -> dict[str, str]:
    """Where a run finds its data and leaves its log: where any user of the container may write."""
    return {"DATADIR": "/data" if options.data_path else "/tmp/podium/data", "LOGDIR": "/tmp/podium/logs"}


def state(described: Mapping[str, Any]) -> State:
    """The state of a job as `describe_jobs` has it; a spot instance that was taken away is `preempted`."""
    word, why = described["status"], described.get("statusReason") or ""
    inside = described.get("container", {}).get("reason") or ""
    told = f"{word} {why} {inside}".strip()
    if word in ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING"):
        return State(PENDING, told=told)
    if word == "RUNNING":
        return State(RUNNING, told=told)
    return State(ENDED, _cause(why, inside) if word == "FAILED" else "", told)


def _cause(why: str, inside: str) -> str:
    """From the words of Batch: user guide, troubleshooting and "job attempts were stopped" reasons."""
    known = {
        "Host EC2": "preempted",
        "Spot": "preempted",
        "timeout": "time limit",
        "exceeded the configured": "time limit",
        "terminated by": "cancelled",
        "OutOfMemory": "out of memory",
        "CannotPullContainer": "not started",
        "CannotStartContainer": "not started",
        "CannotCreateContainer": "not started",
        "MISCONFIGURATION": "not started",
    }
    words = f"{why} {inside}"
    return next((cause for text, cause in known.items() if text in words), "")


def cost(options: Options, nodes: int, minutes: float) -> float | None:
    """What `minutes` on so many instances cost at the price of the config; None where it names none."""
    return None if options.price_per_hour is None else options.price_per_hour * nodes * minutes / 60


def chunks(ids: Sequence[str], size: int = 100) -> list[list[str]]:
    """`describe_jobs` takes a hundred ids."""
    return [list(ids[start : start + size]) for start in range(0, len(ids), size)]
