"""From a source folder to a layout: text to instances, instances to shards; parallel, and resumed file by file."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from podium import files
from podium.data.job import Job
from podium.data.tasks import Run, runner
from podium.data.wikipedia import (
    evaluation,
    extract,
    options,
    pack,
    publish,
    shards,
    shuffle,
    source,
    store,
    text,
    wikitext,
)
from podium.data.wikipedia.instances import Recipe, build
from podium.data.wikipedia.layouts import LAYOUTS, PACKED, SHUFFLED, TEXT, Layout
from podium.data.wikipedia.unpack import unpack
from podium.data.wikipedia.wordpiece import Tokeniser, read_vocabulary
from podium.errors import BadInput
from podium.manifest import OFFICIAL

WORK = "work"  # folder of what is needed until all is done
STORED = 0.9  # bytes of stored instances for each byte of text that is used once


def prepare(job: Job) -> dict[str, Any]:
    """Make the layout below `job.to`; returns the counts. Raises BadInput for a source or a parameter that is wrong."""
    recipe, chosen, cut = options.chosen(job.params)
    form = chosen.form or source.form(job.source, made=job.layout == TEXT)
    if form not in source.FORMS:
        raise BadInput(f"unknown form {form!r}", " or ".join(source.FORMS), form, "podium prepare --help")
    start = source.checkpoint(job.source)  # first: half of one is told before hours of work
    counts: dict[str, Any] = {"form": form}
    if job.layout == TEXT and job.params.get("take"):
        raise BadInput("parameter take", "a layout of sequences", f"layout {TEXT}", "podium prepare --help")
    with runner(job.workers) as run:
        if form == "text":
            found = source.text(job.source)
        elif form == "archive":
            found = unpack(job.source, job.to / WORK / "unpacked")
        else:
            raw = job.source
            if form == "dump":
                raw, dump = job.to / WORK / "extracted", source.dump(job.source, chosen.dump_date)
                counts |= {"dump": dump.name, "extractor": wikitext.VERSION, "pages": extract.extract(run, dump, raw)}
            found = _publish(run, job, raw, cut)
            counts |= {OFFICIAL: False, "sentences": "regular expression"}
        if job.layout == TEXT:
            counts["parts"] = len(found.parts)
        else:
            beside = sum(path.stat().st_size for path in start.values())
            counts |= _instances(run, job, found, recipe, chosen, beside)
    if found.vocabulary.is_file():
        shutil.copyfile(found.vocabulary, job.to / "vocab.txt")
    for name, path in start.items():
        (job.to / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, job.to / name)
    shutil.rmtree(job.to / WORK, ignore_errors=True)
    return counts


def _publish(run: Run, job: Job, raw: Path, cut: publish.Cut) -> source.Text:
    """Clean, split and gather the extracted files below `raw`; the text is the result or the next step's input."""
    folder = job.to if job.layout == TEXT else job.to / WORK / "text"
    if not (folder / "eval.md5").exists():
        publish.publish(source.raw_files(raw), folder, cut, run)
    return source.Text(sorted(folder.glob("part-*")), folder / "eval.txt", source.vocabulary(job.source))


def _instances(
    run: Run, job: Job, found: source.Text, recipe: Recipe, chosen: options.Options, beside: int
) -> dict[str, Any]:
    """Each text part to its instances, these to the files of the layout; so many bytes will come beside them."""
    layout, vocabulary = LAYOUTS[job.layout], read_vocabulary(found.vocabulary)
    held_out = _held_out(found.evaluation) if found.evaluation else frozenset()
    tokens = (found.vocabulary, files.hash_file(found.vocabulary), chosen.do_lower_case, chosen.unicode)
    if not (take := job.params.get("take", 0)):
        _need_space(job.to, found.texts, layout, recipe, beside)
    stored = {path: job.to / WORK / "parts" / f"{path.name}.hdf5" for path in found.texts}
    check = {path: held_out for path in found.parts}
    run(
        [partial(_store_part, path, to, tokens, recipe, check.get(path, ()), take) for path, to in stored.items()],
        "instances",
    )
    writer = partial(layout.write, recipe=recipe)
    train = _shards([stored[path] for path in found.parts], job.to, layout, chosen.shards)
    _write_parts(job.to / store.PARTS, train)
    arranged: dict[str, int] = {}
    if layout.arranged is SHUFFLED:
        shuffle.write(run, train, job.to / WORK, writer)
    elif layout.arranged is PACKED:
        arranged = pack.write(run, train, recipe.max_seq_length, job.to / WORK)
    else:
        shards.write(run, train, writer)
    counts = {
        "recipe": asdict(recipe) | {"do_lower_case": chosen.do_lower_case},
        "unicode": chosen.unicode or unicodedata.unidata_version,
        "vocabulary": len(vocabulary),
        "parts": len(train.parts),
        "articles": sum(map(store.articles, train.parts)),
        "train_instances": sum(train.part_sizes),
        "shards": len(train.files),
        **arranged,
    }
    if found.evaluation:
        candidates = store.read(stored[found.evaluation])
        rows = evaluation.picked(len(candidates), chosen.eval_samples)
        writer(job.to / layout.eval_name, len(rows), [candidates.take(rows)])
        counts["eval_articles"] = store.articles(stored[found.evaluation])
        counts |= {"eval_candidates": len(candidates), "eval_instances": len(rows)}
    return counts


def _shards(parts: Sequence[Path], to: Path, layout: Layout, wanted: int) -> shards.Shards:
    """The training files: as many as are wanted, or one for each part."""
    part_sizes = [store.count(part) for part in parts]
    file_sizes = shards.sizes(sum(part_sizes), wanted) if wanted else part_sizes
    names = [to / layout.train_name(number, len(file_sizes)) for number in range(len(file_sizes))]
    return shards.Shards(parts, part_sizes, names, file_sizes)


def _write_parts(path: Path, train: shards.Shards) -> None:
    sizes = zip(train.parts, train.part_sizes, strict=True)
    lines = (f"{part.stem},{store.articles(part)},{size}\n" for part, size in sizes)
    files.write_text(path, "part,articles,instances\n" + "".join(lines))


def _need_space(to: Path, texts: Collection[Path], layout: Layout, recipe: Recipe, beside: int) -> None:
    """Raise BadEnvironment when the disk is too small for what is yet to be written."""
    stored = STORED * (2 if layout.arranged else 1)
    text_bytes = sum(path.stat().st_size for path in texts) * recipe.dupe_factor
    present = sum((to / path).stat().st_size for path in files.walk(to))
    files.need_space(to, int(text_bytes * (stored + layout.growth)) + beside - present, f"the sequences in {to}")


def _held_out(evaluation_text: Path) -> frozenset[str]:
    """md5 of the articles held out; raises BadInput when they are not those of the eval.md5 beside them."""
    listed = evaluation_text.with_suffix(".md5")
    if listed.is_file():
        text.check_evaluation(evaluation_text, listed)
    return frozenset(text.articles(text.read(evaluation_text)))


def _store_part(
    path: Path, to: Path, tokens: tuple[Path, str, bool, str], recipe: Recipe, held_out: Collection[str], take: int
) -> None:
    """Read, check and tokenise a text part and store its instances."""
    if not to.exists():
        content = text.read(path)
        text.check_held_out(path, content, held_out)
        tokeniser = _tokeniser(*tokens)
        corpus = text.tokenise(path, text.first(content, take), tokeniser)
        store.write(to, build(corpus, tokeniser.vocabulary, recipe), articles=len(corpus.documents))


@lru_cache(maxsize=1)
def _tokeniser(vocabulary: Path, sha256: str, lower_case: bool, unicode: str) -> Tokeniser:
    """Kept between the parts that a process does: the words that it has met are known already."""
    del sha256  # a part of the key: another vocabulary may come to lie at the same path
    return Tokeniser(read_vocabulary(vocabulary), lower_case, unicode)
