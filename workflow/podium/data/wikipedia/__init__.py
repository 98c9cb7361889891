"""Wikipedia for BERT: from the published text, or from a dump, to the instances that the reference makes."""

from podium.data.wikipedia import layouts
from podium.data.wikipedia.again import rederive
from podium.data.wikipedia.check import invariants
from podium.data.wikipedia.options import OTHER_NAMES, PARAMS
from podium.data.wikipedia.prepare import prepare
from podium.data.wikipedia.source import FORMS

LAYOUTS = {name: layout.line for name, layout in layouts.LAYOUTS.items()} | {
    layouts.TEXT: "the published form of the text, made of a dump or of WikiExtractor's files (not official)",
}

__all__ = ["FORMS", "LAYOUTS", "OTHER_NAMES", "PARAMS", "invariants", "prepare", "rederive"]
