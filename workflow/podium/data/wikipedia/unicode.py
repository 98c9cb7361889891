"""Characters as an older Python saw them: the tokens of a text depend on the Unicode version behind them.

The reference's container had Python 3.7 (Unicode 11.0.0), NVIDIA's of that time Python 3.8 (12.1.0). A character that
was not assigned then was no mark, no accent, no control character, and had no lower case. Here a private-use character,
which is none of these either, stands in for it.

Compared: general category, decomposition and lower case of every code point in the tables of the unicodedata2 packages
11.0.0 and 12.1.0 with those of Python 3.11 (14.0.0).
"""

from __future__ import annotations

import unicodedata

from podium.errors import BadInput

OURS = "14.0.0"  # the version that the tables start from
PRIVATE = 0xF0000  # added to a code point: planes 15 and 16

# Assigned later, and treated by the tokeniser in another way since.
AFTER_12_1 = (
    "61d 890-891 898-89f 8ca-8d2 b55 c3c d81 1715 180f 1abf-1ace 1b7d-1b7e 1dfa 2c2f 2e52-2e5d a7c0 a7c7 a7c9 a7d0 "
    "a7d6 a7d8 a7f5 a82c 10570-1057a 1057c-1058a 1058c-10592 10594-10595 10eab-10ead 10f82-10f89 11070 11073-11074 "
    "110c2 111cf 1145a 116b9 11938 1193b-1193e 11943-11946 12ff1-12ff2 16fe4 16ff0-16ff1 1cf00-1cf2d 1cf30-1cf46 1e2ae"
)
IN_12 = (
    "c77 eba 2e4f a7ba a7bc a7be a7c2 a7c4-a7c6 119d4-119d7 119da-119db 119e0 119e2 11fff 13430-13438 16f4f 16fe2 "
    "1e130-1e136 1e2ec-1e2ef"
)
# Category changed: U+166D was a mark like U+166E, U+1734 an accent like U+1733, U+A9BD was not yet an accent.
CHANGED_14 = {0x1734: 0x1733}
CHANGED_12 = {0x166D: 0x166E, 0xA9BD: 0xA9BD + PRIVATE}


def stand_ins(version: str) -> dict[int, int]:
    """For `str.translate`: what to put for characters that Unicode `version` did not know, or knew as something else.

    Nothing for the version of this Python, or for "". Raises BadInput for a version that there is no table of here.
    """
    here = unicodedata.unidata_version
    tables = {here: {}, "": {}}
    if here == OURS:
        tables["12.1.0"] = _unassigned(AFTER_12_1) | CHANGED_14
        tables["11.0.0"] = tables["12.1.0"] | _unassigned(IN_12) | CHANGED_12
    if version not in tables:
        advice = f"leave out the parameter unicode, or run on a Python with Unicode {OURS} (3.11)"
        raise BadInput(f"Unicode {version}", " or ".join(filter(None, tables)), f"this Python has {here}", advice)
    return tables[version]


def _unassigned(ranges: str) -> dict[int, int]:
    bounds = [[int(bound, 16) for bound in part.split("-")] for part in ranges.split()]
    return {code: code + PRIVATE for bound in bounds for code in range(bound[0], bound[-1] + 1)}
