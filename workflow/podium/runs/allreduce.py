"""Whether the processes of a run reach each other as fast as the system should: one all-reduce, before the training.

It is given to `python3 -c` in the image, once for each process, with the bandwidth that is wanted. The bus bandwidth is
that of nccl-tests (PERFORMANCE.md): 2 (n - 1) / n times the bytes, by the time. On accelerators it also says whether
NCCL goes between nodes by InfiniBand (or a plugin like EFA's) or by sockets, from NCCL's own words.
"""

import json
import os
import pathlib
import re
import sys
import time

REPEATS = 10


def transports(text):
    """What NCCL says that it uses between nodes: `NET/IB`, `NET/Socket`, `NET/AWS Libfabric` …"""
    return sorted(set(re.findall(r"Using network ([\w .-]*\w)", text)))


def bandwidth(size, seconds, processes):
    """Bus bandwidth in GB/s of an all-reduce of `size` bytes."""
    return 2 * (processes - 1) / processes * size / seconds / 1e9


def main():
    wanted = float(sys.argv[1])
    said = pathlib.Path("/tmp", f"podium-nccl-{os.getpid()}")
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET", NCCL_DEBUG_FILE=str(said))
    import torch
    from torch import distributed

    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if gpu else "gloo")
    processes = distributed.get_world_size()
    values = torch.ones((256 << 20 if gpu else 4 << 20) // 4, device=device)
    distributed.all_reduce(values)
    if values[0].item() != processes:
        sys.exit(f"all-reduce of ones is {values[0].item()}, {processes} is right")
    begun = None
    for repeat in range(REPEATS + 2):
        if repeat == 2:  # the first two set connections up
            distributed.barrier()
            begun = time.perf_counter()
        distributed.all_reduce(values)
        if gpu:
            torch.cuda.synchronize()
    seconds = (time.perf_counter() - begun) / REPEATS
    reached = bandwidth(values.numel() * 4, seconds, processes)
    if distributed.get_rank() == 0:
        by = transports(said.read_text(errors="replace")) if said.exists() else []
        told = {"processes": processes, "gigabytes_per_second": round(reached, 3), "wanted": wanted, "network": by}
        print("podium all-reduce", json.dumps(told), flush=True)
    distributed.barrier()
    sys.stdout.flush()
    os._exit(int(reached < wanted))  # without the teardown, in which a thread of gloo could still abort


if __name__ == "__main__":
    main()
