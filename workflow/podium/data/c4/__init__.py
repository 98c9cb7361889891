"""C4 for llama31_8b, gpt_oss_20b and llama31_405b: from its shards of text to merged ones, and to tokens."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from podium import files
from podium.data.c4 import merge, pieces, shards, tokenizer, tokens
from podium.data.c4.again import rederive
from podium.data.c4.check import invariants
from podium.data.c4.shards import FORMS
from podium.data.formats import megatron
from podium.data.job import Job
from podium.data.tasks import runner
from podium.errors import BadInput

__all__ = ["FORMS", "LAYOUTS", "PARAMS", "invariants", "prepare", "rederive", "settled"]

LAYOUTS = {
    "merged": "c4-train.en_{6,7}.json.gz, 128 shards each, and c4-validation-91205-samples.en.json.gz, as text",
    "megatron": "the same as tokens: c4-….en_{6,7}_text_document.{bin,idx} as Megatron-LM and NeMo read them",
}
PARAMS = {
    "parts": "which of the eight parts of 128 shards (default [6, 7], shards 768 to 1023, which MLPerf trains on)",
    "validation_documents": "how many documents of the validation set, the first ones (default 91205)",
    "take": "only the first N documents of each file, and N of the validation set: a subset for tests (default: all)",
    "tokenizer": "megatron: tokenizer.json of Hugging Face or its folder, such as raw/tokenizer of c4_llama31",
    "tokenizer_sha256": "megatron: the sha256 that tokenizer.json must have (default: any)",
    "vocabulary": "megatron: how many tokens it must have (default: 128256 of Llama 3.1, 32000 or 32768 of Mixtral)",
}
_VALIDATION = 91_205
_LEAST = {2: 1, 4: 2}  # bytes of tokens for each of a .json.gz at least, by bytes a token: C4 has 1.3 and 2.2


def settled(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with the hash of the tokenizer that they name: another one at the same place is another one.

    Raises BadInput where there is none, or where it has not the hash that is given.
    """
    if "tokenizer" not in params:
        return dict(params)
    path = tokenizer.find(params["tokenizer"])
    found = files.hash_file(path)
    if (wanted := params.get("tokenizer_sha256", found)) != found:
        raise BadInput(f"{path} is another tokenizer", f"sha256 {wanted}", found, "give the one that is meant")
    return {**params, "tokenizer_sha256": found}


def prepare(job: Job) -> dict[str, Any]:
    """Write the parts and the validation set below `job.to`, as text or as tokens; the bytes do not depend on
    `job.workers`.

    What is done of each shard is noted in `work`. Returns the documents of each file, and of tokens how many and by
    what. Raises BadInput for shards that are missing, torn or hold something else than documents.
    """
    take = job.params.get("take", 0)
    validation = job.params.get("validation_documents", take or _VALIDATION)
    if not isinstance(validation, int) or isinstance(validation, bool) or validation < 1:
        raise BadInput("parameter validation_documents", "a number from 1", repr(validation), "podium prepare --help")
    make = _tokens if job.layout == "megatron" else _merged
    counts = make(job, _parts(job.params), validation, take)
    shutil.rmtree(job.to / merge.WORK)
    return counts


def _merged(job: Job, parts: list[int], validation: int, take: int) -> dict[str, Any]:
    found, work = shards.find(job.source, parts), job.to / merge.WORK
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
    return {"train_documents": dict(merged), "validation_documents": validation}


def _tokens(job: Job, parts: list[int], validation: int, take: int) -> dict[str, Any]:
    tokenizer.needed()
    path = tokenizer.find(job.params.get("tokenizer"))
    sha256 = settled(job.params)["tokenizer_sha256"]
    vocabulary = tokenizer.vocabulary(path, job.params.get("vocabulary"))
    dtype, work = megatron.token_dtype(vocabulary), job.to / merge.WORK
    outputs = pieces.outputs(job.source, parts, validation, take, work)
    every = [piece for output in outputs for piece in output.pieces]
    if not take:
        packed = sum((one.stop or one.path.stat().st_size) - one.start for one in every)
        there = sum(one.stat().st_size for one in job.to.rglob("*.bin"))
        files.need_space(job.to, packed * _LEAST[dtype.itemsize] - there, f"the tokens in {job.to}")
    with runner(job.workers) as run:
        run([partial(tokens.tokenize, piece, path, sha256, dtype, work) for piece in every], "shards")
        made = run([partial(tokens.join, output, work, job.to, dtype) for output in outputs], "files")
    known = tokenizer.KNOWN.get(vocabulary)
    trained = list(zip(map(str, parts), made, strict=False))
    return {
        "train_documents": {part: documents for part, (documents, _) in trained},
        "train_tokens": {part: count for part, (_, count) in trained},
        "validation_documents": validation,
        f"{known}_validation_tokens" if known else "validation_tokens": made[-1][1],
        "vocabulary": vocabulary,
        "tokenizer_sha256": sha256,
    }


def _parts(params: Mapping[str, Any]) -> list[int]:
    parts = params.get("parts", [6, 7])
    good = isinstance(parts, list) and parts and all(type(part) is int and 0 <= part < shards.PARTS for part in parts)
    if not good or sorted(set(parts)) != parts:
        raise BadInput("parameter parts", "numbers from 0 to 7, rising", repr(parts), "podium prepare --help")
    return parts
