"""KiTS19 (unet3d): 210 CT volumes with kidney and tumour labels, as the pairs of arrays that implementations read.

`cases` finds and checks the source, `resample` is the arithmetic, `arrays` writes the pairs, `check` verifies them,
`again` makes some of them a second time, and `published` knows what the reference got. What the data are:
workflow/catalog/datasets/kits19.md.
"""

from podium.data.kits19.again import rederive
from podium.data.kits19.arrays import LAYOUTS, PARAMS, prepare
from podium.data.kits19.cases import FORMS
from podium.data.kits19.check import invariants

__all__ = ["FORMS", "LAYOUTS", "PARAMS", "invariants", "prepare", "rederive"]
