"""Schemas and facts as data, and the first thing in a value that breaks its schema."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from podium.errors import BadInput

WORKFLOW = Path(__file__).resolve().parents[2]
REPOSITORY = WORKFLOW.parent
# libyaml where PyYAML was built with it: a config of hundreds of results is read in a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def schema(name: str) -> dict[str, Any]:
    """The JSON schema `workflow/schemas/<name>.schema.yaml`."""
    return yaml.safe_load((WORKFLOW / "schemas" / f"{name}.schema.yaml").read_text(encoding="utf-8"))


@cache
def catalog(name: str) -> dict[str, Any]:
    """The facts in `workflow/catalog/<name>.yaml`; raises BadInput when there are none."""
    path = WORKFLOW / "catalog" / f"{name}.yaml"
    if not path.exists():
        known = sorted(entry.stem for entry in path.parent.glob("*.yaml"))
        raise BadInput(f"nothing in the catalog about {name}", ", ".join(known), nearest(path.stem, known), "")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def check(value: Any, rules: Mapping[str, Any], path: Path) -> None:
    """Raise BadInput for the first thing in `value` that breaks the JSON schema `rules`."""
    import jsonschema

    errors = sorted(jsonschema.Draft202012Validator(rules).iter_errors(value), key=lambda error: list(error.path))
    for error in errors:
        place = ".".join(str(part) for part in error.absolute_path) or "the config"
        if error.validator == "additionalProperties" and isinstance(error.schema.get("properties"), dict):
            known = error.schema["properties"]
            for key in sorted(set(error.instance) - set(known)):
                raise BadInput(
                    f"{path}: unknown key {key!r} in {place}", names_of(known), nearest(str(key), known), f"edit {path}"
                )
        raise BadInput(
            f"{path}: {place} is wrong", _expected(error), error.message, f"edit {path}; see config/README.md"
        )


def _expected(error: Any) -> str:
    wanted = error.validator_value
    return f"{error.validator}: " + (", ".join(map(str, wanted)) if isinstance(wanted, list) else str(wanted))


def filled(value: Any, rules: Mapping[str, Any]) -> Any:
    """`value` with the schema's defaults where a key is absent."""
    if isinstance(value, dict):
        properties = rules.get("properties", {})
        other = rules.get("additionalProperties")
        given = {
            key: filled(item, properties.get(key, other if isinstance(other, dict) else {}))
            for key, item in value.items()
        }
        defaults = {key: filled(rule["default"], rule) for key, rule in properties.items() if "default" in rule}
        return {**defaults, **given}
    if isinstance(value, list):
        return [filled(item, rules.get("items", {})) for item in value]
    return value


def names_of(names: Any) -> str:
    return "one of " + ", ".join(sorted(map(str, names))) if names else "none is known"


def nearest(name: str, names: Any) -> str:
    """`name` in quotes, and the known name that is most like it."""
    near: Iterator[str] = iter(difflib.get_close_matches(name, [str(known) for known in names], n=1))
    best = next(near, None)
    return f"{name!r}" + (f"; did you mean {best!r}?" if best else "")
