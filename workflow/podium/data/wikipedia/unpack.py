"""The published archive of the text, results_text.tar.gz, unpacked into one folder: parts, eval.txt, eval.md5."""

from __future__ import annotations

import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from podium import files
from podium.data.wikipedia import source
from podium.errors import BadInput

MD5S = "bert_reference_results_text_md5.txt"  # beside the archive: `md5  path` of each file in it


def unpack(folder: Path, to: Path) -> source.Text:
    """Unpack the archive in `folder` into `to` and return its text; files that are there from an earlier try stay.

    Only the names of the text are taken, without folders, so nothing can be written elsewhere. Raises BadInput for
    an archive that is torn, lacks the text, or holds a file with another md5 than the list beside it says.
    """
    archive = folder / source.ARCHIVE
    try:
        with tarfile.open(archive, "r|gz") as members:
            for member in members:
                name = PurePosixPath(member.name).name
                if member.isfile() and (name.startswith("part-") or name in ("eval.txt", "eval.md5")):
                    _write(members, member, to / name)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BadInput(f"{archive} is torn", "a tar.gz that is whole", str(error), "podium fetch wikipedia") from error
    _compare(folder / MD5S, to)
    if not (to / "eval.md5").exists() and (folder / "eval.md5").exists():
        shutil.copyfile(folder / "eval.md5", to / "eval.md5")
    found = source.text(to)
    return source.Text(found.parts, found.evaluation, source.vocabulary(folder))


def _write(members: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    if path.exists() and path.stat().st_size == member.size:
        return
    with files.writing(path) as writer:
        shutil.copyfileobj(members.extractfile(member), writer, files.CHUNK)


def _compare(listed: Path, folder: Path) -> None:
    """Hold the unpacked files to the list of their md5s, where it was fetched too."""
    if not listed.exists():
        return
    for line in listed.read_text(encoding="utf-8").splitlines():
        md5, _, name = line.partition(" ")
        path = folder / PurePosixPath(name.strip(" *")).name
        if path.exists() and (found := files.hash_file(path, "md5")) != md5:
            raise BadInput(f"{path.name} is not the published text", f"md5 {md5}", f"md5 {found}", f"rm -r {folder}")
