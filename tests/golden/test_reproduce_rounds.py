"""Whole published rounds: every implementation is planned or refused with a reason.

Where: folders v1.0, v3.0 … with the rounds below PODIUM_ROUNDS, or below ../shared/data/published/rounds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from podium.reproduce import discover, hardware, known, plan
from support import SHARED

ROUNDS = Path(os.environ.get("PODIUM_ROUNDS", SHARED / "data" / "published" / "rounds"))
FOUND = sorted(ROUNDS.glob("*v[0-9].[0-9]")) if ROUNDS.is_dir() else []


@pytest.mark.skipif(not FOUND, reason=f"no published rounds in {ROUNDS} (set PODIUM_ROUNDS)")
@pytest.mark.parametrize("place", FOUND, ids=lambda path: path.name)
def test_every_implementation_and_result_of_a_round_is_planned_or_refused_with_a_reason(place):
    tree = discover.discover(place)
    round = f"{place.name.rpartition('v')[2]}.0"
    made = plan.plans(tree, known.known(tree, round), hardware.mine(None, None, None))
    planned = [item for item in made if not item.refused]
    assert {item.path for item in tree.implementations} <= {item.implementation for item in made}
    assert {(i.submitter, i.system, i.benchmark) for i in made if i.system} == {
        (i.result.submitter, i.result.system, i.result.benchmark) for i in tree.results
    }
    assert all(item.start and item.commands and item.code for item in planned)
    assert all(item.config and item.exports for item in planned if item.style in plan.CONFIGURED)
    assert all(len(item.refused) > 10 for item in made if item.refused)
    assert len(planned) > 0.7 * len(made)
