"""C4 for llama31_8b, gpt_oss_20b and llama31_405b: from its shards of text to those that a tokenizer reads."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from podium import files
from podium.data.c4 import merge, shards
from podium.data.c4.again import rederive
from podium.data.c4.check import invariants
from podium.data.c4.shards import FORMS
from podium.data.job import Job
from podium.data.tasks import runner
from podium.errors import BadInput

__all__ = ["FORMS", "LAYOUTS", "PARAMS", "invariants", "prepare", "rederive"]

LAYOUTS = {
    "merged": "c4-train.en_{6,7}.json.gz, 128 shards each, and c4-validation-91205-samples.en.json.gz, as text",
}
PARAMS = {
    "parts": "which of the eight parts of 128 shards (default [6, 7], shards 768 to 1023, which MLPerf trains on)",
    "validation_documents": "how many documents of the validation set, the first ones (default 91205)",
    "take": "only the first N documents of each shard, and N of the validation set: a subset for tests (default: all)",
}
_VALIDATION = 91_205


def prepare(job: Job) -> dict[str, Any]:
    """Write the merged parts and the validation set below `job.to`; the bytes do not depend on `job.workers`.

    Each shard is copied to its place in its part, and those that are done are noted in `work`. Returns the documents of
    each file. Raises BadInput for shards that are missing, torn or hold something else than documents.
    """
    take = job.params.get("take", 0)
    validation = job.params.get("validation_documents", take or _VALIDATION)
    if not isinstance(validation, int) or isinstance(validation, bool) or validation < 1:
        raise BadInput("parameter validation_documents", "a number from 1", repr(validation), "podium prepare --help")
    found, work = shards.find(job.source, _parts(job.params)), job.to / merge.WORK
    with runner(job.workers) as run:
        if take:
            run([partial(merge.cut, one.path, work, take) for one in found.train], "cuts")
            found = found.moved(work)
        else:
            files.need_space(job.to, found.train_bytes - merge.there(job.to), f"the parts in {job.to}")
        tasks = [partial(merge.place, one, start, job.to) for one, start in found.places()]
        documents = run([*tasks, partial(merge.first, found.validation, validation, job.to)], "shards")
    merged: Counter[str] = Counter()
    for one, count in zip(found.train, documents[:-1], strict=True):  # the last is that of `first`
        merged[str(one.part)] += count
    merge.finish(found, job.to)
    shutil.rmtree(work)
    return {"train_documents": dict(merged), "validation_documents": validation}


def _parts(params: Mapping[str, Any]) -> list[int]:
    parts = params.get("parts", [6, 7])
    good = isinstance(parts, list) and parts and all(type(part) is int and 0 <= part < shards.PARTS for part in parts)
    if not good or sorted(set(parts)) != parts:
        raise BadInput("parameter parts", "numbers from 0 to 7, rising", repr(parts), "podium prepare --help")
    return parts
