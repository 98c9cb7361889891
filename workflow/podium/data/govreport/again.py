"""Drawn samples once more, by the library's own lists of Python numbers, against those that were written."""

from __future__ import annotations

from podium.data.again import Again, Sample
from podium.data.formats import objects
from podium.data.govreport import parquet


def rederive(sample: Sample) -> Again:
    """Compare drawn samples of each split with the source."""
    parquet.needed()
    from pyarrow.parquet import read_table

    items, problems = 0, []
    for split, path in parquet.find(sample.source).items():
        there = objects.read(sample.folder / f"{split}.npy")
        table = read_table(path)
        for number in sample.drawn(range(len(there))):
            items += 1
            found = there[number]
            kept = [found["input_ids"].tolist(), found["loss_mask"], found["seq_start_id"]]
            if [kept] != [
                [one["input_ids"], [int(label != -100) for label in one["labels"]], [0]]
                for one in table.slice(number, 1).to_pylist()
            ]:
                problems.append(f"{split}.npy: expected sample {number + 1} of {path.name}, found another")
    return Again(items, problems)
