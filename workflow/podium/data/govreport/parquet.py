"""The parquet files of GovReport as they are published, a sample at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from podium.errors import BadEnvironment, BadInput

FORMS = {"parquet": "train-00000-of-00001.parquet and validation-00000-of-00001.parquet, as fetched"}
SPLITS = ("train", "validation")
COLUMNS = ("input_ids", "labels")
NEXT = "podium fetch govreport"
_BATCH = 64  # samples that are held at once: 8 MB


def needed() -> None:
    """Raise BadEnvironment that names the command where the reader is not there."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise BadEnvironment(
            "parquet needs a library of its own",
            "pyarrow, pinned in requirements-parquet.txt",
            str(error),
            "make .venv/pins-parquet",
        ) from error


def find(folder: Path) -> dict[str, Path]:
    """The file of each split; raises BadInput that names those that are missing."""
    found = {split: folder / f"{split}-00000-of-00001.parquet" for split in SPLITS}
    if missing := [path.name for path in found.values() if not path.is_file()]:
        raise BadInput(f"{folder} is not complete", "both files", f"no {', '.join(missing)}", NEXT)
    return found


def count(path: Path) -> int:
    """How many samples a file has by its footer; raises BadInput as `samples` does."""
    with _opened(path) as file:
        return file.metadata.num_rows


def samples(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The tokens and the labels of each sample, int32 or int64 as they are stored.

    Raises BadInput for a file that is damaged, or has not these columns, or gaps in them.
    """
    with _opened(path) as file:
        for batch in file.iter_batches(_BATCH, columns=list(COLUMNS)):
            columns = [batch.column(name) for name in COLUMNS]
            for name, column in zip(COLUMNS, columns, strict=True):
                if column.null_count or column.flatten().null_count:
                    raise BadInput(f"{path} has gaps", f"numbers in every place of {name}", "nothing in some", NEXT)
            lists = [(column.offsets.to_numpy(), column.values.to_numpy()) for column in columns]
            for number in range(batch.num_rows):
                ids, labels = (values[offsets[number] : offsets[number + 1]] for offsets, values in lists)
                yield ids, labels


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            if missing := [name for name in COLUMNS if name not in schema.names]:
                there = ", ".join(schema.names)
                raise BadInput(f"{path} has no {' and no '.join(missing)}", ", ".join(COLUMNS), there, NEXT)
            for name in COLUMNS:
                kind = schema.field(name).type
                lists = arrow.types.is_list(kind) or arrow.types.is_large_list(kind)
                if not lists or kind.value_type not in (arrow.int32(), arrow.int64()):
                    raise BadInput(f"{path}: column {name}", "lists of int32 or int64", str(kind), NEXT)
            yield file
    except (arrow.ArrowException, OSError) as error:
        raise BadInput(f"{path} cannot be read", "a parquet file that is whole", str(error)[:200], NEXT) from error
