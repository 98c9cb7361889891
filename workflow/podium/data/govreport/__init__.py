"""GovReport for llama2_70b_lora: from the two parquet files to the `.npy` that NVIDIA's and AMD's images read."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from podium import files
from podium.data.govreport import parquet, samples
from podium.data.govreport.again import rederive
from podium.data.govreport.check import invariants
from podium.data.govreport.parquet import FORMS
from podium.data.job import Job
from podium.data.tasks import runner
from podium.errors import BadInput

__all__ = ["FORMS", "LAYOUTS", "PARAMS", "invariants", "prepare", "rederive"]

LAYOUTS = {
    "npy": "{train,validation}.npy, dictionaries of input_ids, loss_mask and seq_start_id, as NumPy 1 pickles them",
}
PARAMS = {
    "train_samples": "how many there must be to train (default 3901)",
    "eval_samples": "how many there must be to evaluate (default 173)",
    "take": "only the first N samples of each split: a subset for tests (default: all)",
}
_PUBLISHED = {"train": 3901, "validation": 173}
# training_results_v4.0, NVIDIA/benchmarks/llama2_70b_lora/…/scripts/{hash,convert_dataset}.py: the md5 over the sorted
# md5 of all files of the folder, in which .gitattributes of Hugging Face lies too.
_GIT_ATTRIBUTES = "d85de041c769ee501dc7021ef3fb3201"


def prepare(job: Job) -> dict[str, Any]:
    """Write both files below `job.to`; the bytes depend on neither `job.workers` nor the NumPy that is installed.

    Returns the samples of each, and `nvidia_md5`, which NVIDIA publishes for the whole set. Raises BadInput for files
    that are missing or damaged, and for samples that are not as the benchmark has them; BadEnvironment where the reader
    of parquet is missing.
    """
    take = job.params.get("take", 0)
    wanted = {split: _wanted(job, split) for split in _PUBLISHED}
    parquet.needed()
    found = parquet.find(job.source)
    for split, path in found.items():
        count = parquet.count(path)
        if count != wanted[split] and not take:
            raise BadInput(f"{path} is not the published set", f"{wanted[split]} samples", str(count), parquet.NEXT)
    with runner(job.workers) as run:
        made = run(
            [partial(samples.convert, path, job.to / f"{split}.npy", take) for split, path in found.items()], "npy"
        )
    digests = [files.hash_file(job.to / f"{split}.npy", "md5") for split in found]
    whole = "".join(sorted([*digests, _GIT_ATTRIBUTES])).encode()
    return {
        "train_samples": made[0],
        "eval_samples": made[1],
        "nvidia_md5": hashlib.md5(whole, usedforsecurity=False).hexdigest(),
    }


def _wanted(job: Job, split: str) -> int:
    name = {"train": "train_samples", "validation": "eval_samples"}[split]
    count = job.params.get(name, _PUBLISHED[split])
    if type(count) is not int or count < 1:
        raise BadInput(f"parameter {name}", "a number from 1", repr(count), "podium prepare --help")
    return count
