"""The parameters of the preparation: what each is, its default, and the check of what is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from podium.data.wikipedia.gather import BLOCK_MIB
from podium.data.wikipedia.instances import Recipe
from podium.data.wikipedia.publish import Cut
from podium.errors import BadInput

Chosen = TypeVar("Chosen")

PARAMS = {
    "max_seq_length": "tokens a sequence, padding included (default 512)",
    "max_predictions_per_seq": "most masked words a sequence (default 76)",
    "masked_lm_prob": "share of masked words (default 0.15)",
    "random_seed": "seed of each text part (default 12345)",
    "dupe_factor": "times each article is used, with other masks (default 10)",
    "short_seq_prob": "share of articles cut into shorter sequences (default 0.1)",
    "do_lower_case": "lower case, no accents (default true)",
    "unicode": "Unicode version of the tokens: 11.0.0, 12.1.0 or this Python's (default this Python's)",
    "shards": "training files (default 0: one for each text part; published are 2048 and 4320); also num_shards",
    "take": "only the first N articles of each text part and of eval.txt: a subset for tests (default: all)",
    "eval_samples": "evaluation sequences (default 10000); also num_examples_to_pick",
    "form": "which form to take where a folder has several (default: the published text if there is any)",
    "dump_date": "form dump: the date in the dump's name (default 20200101, the benchmark's)",
    "eval_articles": "forms wikiextractor and dump: articles for evaluation (default 10000); also num_test_articles",
    "block_mib": f"forms wikiextractor and dump: raw MiB of a text part (default {BLOCK_MIB}); also block_size",
}

# What a parameter is called in the reference's scripts (pick_eval_samples.py, seperate_test_set.py, do_gather.py,
# chop_hdf5_files.py) or in lists of what they made; it may be given by these names too.
OTHER_NAMES = {
    "num_examples_to_pick": "eval_samples",
    "num_test_articles": "eval_articles",
    "block_size": "block_mib",
    "block_size_MiB": "block_mib",
    "num_shards": "shards",
}

# The least value of a whole number where it is not 1; all others may be as small as 0.
LEAST = {"max_seq_length": 5, "random_seed": 0, "shards": 0, "eval_articles": 0}


@dataclass(frozen=True)
class Options:
    """What does not concern the decisions within a part."""

    do_lower_case: bool = True
    unicode: str = ""
    shards: int = 0
    eval_samples: int = 10000
    form: str = ""
    dump_date: int = 20200101


def chosen(params: Mapping[str, Any]) -> tuple[Recipe, Options, Cut]:
    """What `params` ask for, the rest by default. Raises BadInput for a value that cannot be."""
    return _chosen(Recipe, params), _chosen(Options, params), _chosen(Cut, params)


def _chosen(kind: type[Chosen], params: Mapping[str, Any]) -> Chosen:
    defaults = kind()
    names = [field.name for field in fields(kind) if field.name in params]
    for name in names:
        _check(name, params[name], getattr(defaults, name))
    return kind(**{name: params[name] for name in names})


def _check(name: str, value: Any, default: Any) -> None:
    """Raise BadInput unless the value is of the default's kind and not too small."""
    if isinstance(default, (bool, str)):
        wanted = "true or false" if isinstance(default, bool) else "a word"
        fits = isinstance(value, type(default))
    else:
        kind, least = ("whole number", LEAST.get(name, 1)) if isinstance(default, int) else ("number", 0)
        wanted = f"a {kind} from {least}"
        fits = isinstance(value, (int, type(default))) and not isinstance(value, bool) and value >= least
    if not fits:
        raise BadInput(f"parameter {name}", f"{wanted}: {PARAMS[name]}", repr(value), "podium prepare --help")
