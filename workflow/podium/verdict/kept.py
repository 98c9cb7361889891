"""The verdict on a result as `podium check` keeps it in the work root, for whoever reads it."""

from __future__ import annotations

from typing import Any

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.errors import BadInput


def read(config: Config, wanted: plan.Plan) -> dict[str, Any] | None:
    """The verdict on a result, None where it is not checked yet.

    Raises BadInput for one that is not as this version writes it: nothing is migrated, it is made again.
    """
    path = plan.verdict_file(config, wanted)
    if not path.exists():
        return None
    try:
        verdict = files.read_json(path)
        configuration.check(verdict, configuration.schema("verdict"), path)
    except (ValueError, BadInput) as error:
        found = error.found if isinstance(error, BadInput) else str(error)
        raise BadInput(
            f"{path} is not of this version", "what `podium check` writes", found, command(config, wanted)
        ) from error
    return verdict


def command(config: Config, wanted: plan.Plan) -> str:
    """The command that writes the verdict on a result anew."""
    return f"podium check --system {wanted.system.name} --benchmark {wanted.benchmark} --config {config.path}"
