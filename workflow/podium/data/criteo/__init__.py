"""Criteo's click logs for dlrm_dcnv2: from the reference's arrays, column by column, to HugeCTR's rows."""

from __future__ import annotations

from functools import partial
from typing import Any

from podium import files
from podium.data.criteo import days, rows
from podium.data.criteo.again import rederive
from podium.data.criteo.check import invariants
from podium.data.criteo.days import FORMS
from podium.data.job import Job
from podium.data.tasks import runner
from podium.errors import BadInput

__all__ = ["FORMS", "LAYOUTS", "PARAMS", "invariants", "prepare", "rederive"]

LAYOUTS = {"hugectr": "{train,val,test}_data.bin: label, 13 numbers and 214 ids a sample, row by row (HugeCTR's raw)"}
PARAMS = {
    "eval_samples": "samples of the last day that are evaluated, the first ones; the rest are test (default 89137319)",
    "take": "only the first N samples of each day: a subset for tests (default: all)",
}
_EVAL_SAMPLES = 89_137_319


def prepare(job: Job) -> dict[str, Any]:
    """Write the rows of all days below `job.to`; the bytes do not depend on `job.workers`.

    Each day is written to its place in the file; the days that are done are noted in `work`. Returns the samples of
    each file. Raises BadInput for days that are missing, cut, or do not fit together.
    """
    found, take = days.find(job.source), job.params.get("take", 0)
    counts = [min(day.rows, take or day.rows) for day in found]
    evaluated = job.params.get("eval_samples", min(_EVAL_SAMPLES, take // 2) if take else _EVAL_SAMPLES)
    if not isinstance(evaluated, int) or isinstance(evaluated, bool) or not 0 < evaluated <= counts[-1]:
        expected = f"a whole number from 1 to {counts[-1]}, the samples of the last day"
        raise BadInput("parameter eval_samples", expected, repr(evaluated), "podium prepare --help")
    samples = {"train": sum(counts[:-1]), "eval": evaluated, "test": counts[-1] - evaluated}
    files.need_space(job.to, sum(counts) * rows.BYTES - rows.there(job.to), f"the rows in {job.to}")
    parts = rows.parts(found, counts, evaluated)
    with runner(job.workers) as run:
        run([partial(rows.write, part, job.to) for part in parts], "rows")
    rows.finish(job.to, samples)
    return {f"{name}_samples": count for name, count in samples.items()}
