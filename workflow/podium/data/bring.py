"""A set that an implementation reads where it lies and as it is (layout `asis`): hashed, never copied or changed.

Only its manifest is made, in the work root. What the files mean is the implementation's business, so nothing but their
names, sizes and hashes can be verified.
"""

from __future__ import annotations

from dataclasses import replace

from podium import files, manifest, plan
from podium.config import Config, DataSet
from podium.errors import BadInput


def bring(config: Config, dataset: DataSet) -> manifest.Manifest:
    """The manifest of the source folder, which is also written into the layout's folder of the work root.

    Nothing is hashed again where the names and sizes are those of the manifest that is there. Raises BadInput for a
    source that is missing or holds nothing.
    """
    source, folder = plan.data_folder(config, dataset), plan.layout_folder(config, dataset)
    where = f"data.sets.{dataset.name}.source in {config.path}"
    if not source.is_dir():
        raise BadInput(f"the source of {dataset.name} is missing", "a folder", f"nothing at {source}", f"edit {where}")
    with files.locked(folder.with_name(f".{folder.name}.lock")):
        if (folder / manifest.NAME).exists():
            present = manifest.read(folder)
            if present.made_from == dataset.source and not manifest.differences(source, present, "quick"):
                return present
        made = manifest.of_folder(source, made_from=dataset.source)
        if not made.files:
            raise BadInput(f"the source of {dataset.name} is empty", "files", f"none in {source}", f"ls -lR {source}")
        marks = manifest.read(source).marks if (source / manifest.NAME).exists() else {}
        counts = {"files": len(made.files), "bytes": manifest.total_bytes(made.files), **marks}
        made = replace(made, counts=counts)
        manifest.write(folder, made)
    return made
