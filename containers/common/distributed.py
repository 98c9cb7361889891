"""One process per device: who this process is among them, and the few things that they tell each other.

`torchrun` says it by RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, Slurm's `srun` by SLURM_PROCID,
SLURM_LOCALID, SLURM_STEP_NUM_TASKS and SLURM_STEP_NODELIST. Without either there is one process and no process group.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn

from common.contract import Contract, stop

PORTS = range(20_000, 30_000)  # of the meeting point under Slurm, where the job's number picks one


@dataclass(frozen=True)
class World:
    """All processes of a run, seen from one of them. Every process must make the same calls in the same order."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # on its node
    device: torch.device = torch.device("cpu")

    def barrier(self) -> None:
        """Wait until every process is here and its device has done all it was told."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        if self.size > 1:
            distributed.barrier()

    def sum(self, values: Tensor) -> Tensor:
        """The sum over the processes, in place; exact for integers."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def average(self, values: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over the processes."""
        for value in values:
            self.sum(value).div_(self.size)

    def gather(self, own: object) -> list:
        """What each process has, in the order of their ranks, on every process."""
        if self.size == 1:
            return [own]
        everything = [None] * self.size
        distributed.all_gather_object(everything, own)
        return everything

    def agree(self, decision: bool) -> bool:
        """What the first process decided, on every process."""
        flag = torch.tensor(int(decision), device=self.device)
        if self.size > 1:
            distributed.broadcast(flag, src=0)
        return bool(flag)

    def replicate(self, model: nn.Module) -> nn.Module:
        """The model of the first process on every process, with gradients that `backward` averages over them.

        Buffers stay each process's own.
        """
        if self.size == 1:
            return model
        devices = [self.device] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(
            model, device_ids=devices, broadcast_buffers=False, gradient_as_bucket_view=True
        )

    def local_gradients(self, model: nn.Module) -> contextlib.AbstractContextManager[None]:
        """Within it, `backward` adds up gradients without averaging: for all but the last part of a batch."""
        return model.no_sync() if self.size > 1 else contextlib.nullcontext()


def join(contract: Contract) -> World:
    """Meet the other processes of the run; ends the process where there are not as many as the contract says."""
    rank, size, local_rank = _place()
    expected = contract.nodes * contract.gpus
    if expected and size != expected:
        stop(
            f"DGXNNODES={contract.nodes} DGXNGPU={contract.gpus}: expected {expected} processes, found {size}; "
            "start run_and_time.sh once per node with DGXNGPU set, or with srun once per GPU"
        )
    if contract.gpus and torch.cuda.device_count() <= local_rank:
        stop(
            f"DGXNGPU={contract.gpus}: process {local_rank} of this node has no GPU, torch {torch.__version__} finds "
            f"{torch.cuda.device_count()}; look with `nvidia-smi`",
            status=3,
        )
    device = torch.device("cuda", local_rank) if contract.gpus else torch.device("cpu")
    if contract.gpus:
        torch.cuda.set_device(device)
    if size > 1:
        if contract.gpus:
            distributed.init_process_group("nccl", device_id=device)
        else:
            distributed.init_process_group("gloo")
    return World(rank, size, local_rank, device)


def leave(world: World) -> None:
    """End the process group, if there is one, and with it this process: the last call of a run that ended well.

    Gloo's threads live on after the group, which DistributedDataParallel never lets go, and may still give back a
    tensor of the last sum. One that asks for the interpreter while it is torn down aborts the process: nothing is torn
    down.
    """
    if world.size > 1:
        distributed.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _place() -> tuple[int, int, int]:
    """Rank, number of processes, rank on the node. Slurm's variables are made torchrun's, for the process group."""
    step = {
        "RANK": os.environ.get("SLURM_PROCID"),
        "WORLD_SIZE": os.environ.get("SLURM_STEP_NUM_TASKS"),  # not SLURM_NTASKS: a batch script alone has it too
        "LOCAL_RANK": os.environ.get("SLURM_LOCALID"),
    }
    if "RANK" not in os.environ and None not in step.values():
        os.environ.update(step)
        os.environ.setdefault("MASTER_ADDR", first_host(os.environ.get("SLURM_STEP_NODELIST", "localhost")))
        port = PORTS[int(os.environ.get("SLURM_JOB_ID", "0")) % len(PORTS)]
        os.environ.setdefault("MASTER_PORT", str(port))
    rank, size, local_rank = (int(os.environ.get(name, default)) for name, default in zip(step, "010", strict=True))
    return rank, size, local_rank


def first_host(hosts: str) -> str:
    """The first name of a list of hosts as Slurm writes it: `gpu[003-007,9],login1` begins with gpu003."""
    return re.sub(r"\[(\d+)[^\]]*\]", r"\1", re.match(r"(?:[^,\[]|\[[^\]]*\])*", hosts)[0])
