"""What a `repo.toml` may say shorter: a tier that is like another, and conditions on what a probe observed.

Both are written out before the file is checked, so that everything else knows the long form alone.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from pytest_researchenv._words import Tier


__all__ = ["OBSERVED", "write_out"]

#: Where probes leave what they observed, and where the conditions of `observed` look for it.
OBSERVED = "{out}/observed.json"

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_FIELD = r"(?P<field>[A-Za-z_]\w*(?:\.\w+)*)"
_EQUAL = re.compile(rf"{_FIELD}\s*==\s*(?P<value>\S.*)")
_WITHIN = re.compile(rf"(?P<low>{_NUMBER})\s*<=\s*{_FIELD}\s*<=\s*(?P<high>{_NUMBER})")
_LEAST = re.compile(rf"{_FIELD}\s*>=\s*(?P<low>{_NUMBER})")
_MOST = re.compile(rf"{_FIELD}\s*<=\s*(?P<high>{_NUMBER})")
_FORMS = "write it like 'steps == 3', '0 <= error <= 0.01', 'loss >= 0.5' or 'loss <= 9'"


def write_out(raw: dict[str, object]) -> Iterator[tuple[str, str]]:
    """Replace `like` and `observed` in what a `repo.toml` holds by what they stand for.

    Args:
        raw: the file's content; changed in place.

    Yields:
        Key and sentence for everything that is wrong with them; such a key is removed.
    """
    tiers = raw.get("tiers")
    if not isinstance(tiers, dict):
        return
    models = {name: table.pop("like") for name, table in tiers.items() if isinstance(table, dict) and "like" in table}
    written = {name: _conditions(name, table) for name, table in tiers.items() if isinstance(table, dict)}
    for problems, _ in written.values():
        yield from problems
    conditions = {name: found for name, (_, found) in written.items()}
    for name, model in models.items():
        reason = _unusable(name, model, tiers, models)
        if reason:
            yield f"tiers.{name}.like", reason
            continue
        tiers[name] = _merged(tiers[model], tiers[name])
        conditions[name] = conditions[model] | conditions[name]
    for name, found in conditions.items():
        if found:
            _add(tiers[name], found)


def _unusable(name: str, model: object, tiers: Mapping[str, object], models: Mapping[str, object]) -> str:
    """Say why a tier cannot be like another one; nothing when it can."""
    if not isinstance(model, str) or not isinstance(tiers.get(model), dict):
        known = ", ".join(other for other, table in tiers.items() if other != name and isinstance(table, dict))
        return f"{model!r} is no tier that this file has a table of (it has: {known or 'no other'})"
    if name == model:
        return "a tier cannot be like itself"
    if model in models:
        return f"{model} is like another tier itself: name that one"
    if model not in set(Tier):
        return f"{model!r} is no tier"
    return ""


def _table(value: object) -> dict[str, object]:
    """Return a table as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def _merged(model: Mapping[str, object], own: Mapping[str, object]) -> dict[str, object]:
    """Lay a table over another: tables are merged, everything else replaces."""
    merged = dict(model)
    for key, value in own.items():
        before = merged.get(key)
        merged[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def _conditions(name: str, table: dict[str, object]) -> tuple[list[tuple[str, str]], dict[str, dict[str, object]]]:
    """Take the conditions out of a tier's table: what is wrong with them, and field → the long form."""
    evidence = table.get("evidence")
    if not isinstance(evidence, dict) or "observed" not in evidence:
        return [], {}
    # A copy: the table of a tier that others are like stays what it is.
    table["evidence"] = {key: value for key, value in evidence.items() if key != "observed"}
    key = f"tiers.{name}.evidence.observed"
    texts = evidence["observed"]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return [(key, f"must be a list of conditions, not {texts!r}: {_FORMS}")], {}
    problems, found = [], {}
    for index, text in enumerate(texts):
        condition = _condition(text)
        if condition is None:
            problems.append((f"{key}[{index}]", f"{text!r} is no condition: {_FORMS}"))
        elif condition["field"] in found:
            problems.append((f"{key}[{index}]", f"{condition['field']!r} has a condition already: say both in one"))
        else:
            found[str(condition["field"])] = condition
    return problems, found


def _condition(text: str) -> dict[str, object] | None:
    """Return the long form of a condition; None where it is none."""
    entry: dict[str, object] = {"path": OBSERVED}
    if match := _EQUAL.fullmatch(text.strip()):
        try:
            value = json.loads(match["value"])
        except (ValueError, RecursionError):
            return None
        usable = isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))
        return entry | {"field": match["field"], "equals": value} if usable else None
    for form in (_WITHIN, _LEAST, _MOST):
        if match := form.fullmatch(text.strip()):
            given = match.groupdict()
            entry["field"] = given["field"]
            ends = {"min": given.get("low"), "max": given.get("high")}
            bounds = {name: float(end) for name, end in ends.items() if end is not None}
            # One that overflows demands nothing.
            return entry | bounds if all(map(math.isfinite, bounds.values())) else None
    return None


def _add(table: dict[str, object], conditions: Mapping[str, dict[str, object]]) -> None:
    """Put conditions in a tier's table, after the values that are demanded in the long form."""
    evidence = _table(table.get("evidence"))
    demanded = evidence.get("json", [])
    if isinstance(demanded, list):
        table["evidence"] = evidence | {"json": [*demanded, *conditions.values()]}
