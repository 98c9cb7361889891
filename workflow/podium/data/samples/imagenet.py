"""ImageNet in its original form from real image files of every odd kind that the sample folder holds.

Train and validation tars and a labels list, as image-net.org and the reference distribute them, over four invented
classes. Among the training images are the kinds that ImageNet has (grey, CMYK, PNG under a JPEG's name, EXIF rotation)
and some that it might have (a broken EXIF block, junk between header segments, 16-bit quantisation tables, a colour
profile behind the frame header). `truncated_jpeg.jpg` is left out: the preparation must refuse it, which a test shows.

No model can learn from these eleven images. They are there to try the way of the data on files as they are found.
"""

from __future__ import annotations

from pathlib import Path

from podium import files
from podium.data.formats import tar
from podium.errors import BadInput

TRAIN = {
    "n90000001": ("china.jpg", "flower.jpg", "skimage_rocket.jpg"),
    "n90000002": ("hopper_gray.jpg", "hopper_orientation_6.jpg", "hopper_16bit_qtables.jpg"),
    "n90000003": ("pil_sample_cmyk.jpg", "png_disguised_chelsea.JPEG"),
    "n90000004": ("invalid-exif.jpg", "junk_jpeg_header.jpg", "icc-after-SOF.jpg"),
}
VALIDATION = (  # in the order of their names
    ("n90000002", "hopper_orientation_6.jpg"),
    ("n90000001", "china.jpg"),
    ("n90000004", "invalid-exif.jpg"),
    ("n90000003", "flower.jpg"),
    ("n90000002", "hopper_gray.jpg"),
    ("n90000001", "skimage_rocket.jpg"),
)


def make(sample_data: Path, to: Path) -> None:
    """Write ILSVRC2012_img_{train,val}.tar and the labels into `to` from the files in `sample_data/jpeg_odd`.

    Raises BadInput when one of them is missing.
    """
    folder = sample_data / "jpeg_odd"
    wanted = sorted({name for names in TRAIN.values() for name in names} | {name for _, name in VALIDATION})
    missing = [name for name in wanted if not (folder / name).exists()]
    if missing:
        raise BadInput(
            f"sample files are missing in {folder}", ", ".join(wanted), f"no {', '.join(missing)}", f"ls {folder}"
        )
    content = {name: (folder / name).read_bytes() for name in wanted}
    classes = {
        f"{wnid}.tar": _tar({f"{wnid}_{number}.JPEG": content[name] for number, name in enumerate(names)})
        for wnid, names in TRAIN.items()
    }
    validation = {
        f"ILSVRC2012_val_{number:08d}.JPEG": content[name] for number, (_, name) in enumerate(VALIDATION, start=1)
    }
    for name, data in (("train", _tar(classes)), ("val", _tar(validation))):
        with files.writing(to / f"ILSVRC2012_img_{name}.tar") as file:
            file.write(data)
    labels = "".join(f"{wnid}\n" for wnid, _ in VALIDATION)
    files.write_text(to / "imagenet_2012_validation_synset_labels.txt", labels)


def _tar(members: dict[str, bytes]) -> bytes:
    return b"".join(piece for name, data in members.items() for piece in tar.frame(name, data)) + tar.END
