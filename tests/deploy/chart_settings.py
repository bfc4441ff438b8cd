"""Writes the settings of the service into the schema of the Helm chart.

    python -m tests.deploy.chart_settings

Run it after a setting is added, removed or changed.
"""

import json
from pathlib import Path
from typing import Any

from service.settings import Settings

SCHEMA = Path(__file__).parents[2] / "deploy" / "helm" / "headlight" / "values.schema.json"
# What other values of the chart decide: checkpoint, service and apiKeys.
MANAGED = {"CHECKPOINT", "HOST", "PORT", "API_KEYS", "API_KEYS_FILE"}
_KEPT = ("type", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum")


def properties() -> dict[str, Any]:
    """What the schema says of each setting that `settings` takes."""
    fields = Settings.model_json_schema()["properties"]
    named = {name.upper(): _property(field) for name, field in fields.items()}
    return {name: named[name] for name in sorted(named) if name not in MANAGED}


def _property(field: dict[str, Any]) -> dict[str, Any]:
    """A setting as the chart takes it; null removes a default of the chart."""
    if "enum" in field:
        values = [*field["enum"], None]
        # YAML reads the bare words off and on as false and true.
        values += [bare == "on" for bare in ("off", "on") if bare in field["enum"]]
        return {"description": field["description"], "enum": values}
    kept = {name: field[name] for name in _KEPT if name in field}
    if "$ref" in field:  # families of paths: YAML reads a bare on or off as true or false
        return {"description": field["description"], "type": ["string", "boolean", "null"]}
    kept["type"] = [field["type"] if "type" in field else _type(field["anyOf"]), "null"]
    if field.get("type") == "number":  # --set makes text of a number with a point
        kept |= {"type": ["number", "string", "null"], "pattern": r"^[0-9]+(\.[0-9]+)?$"}
    if field.get("default") == "auto" and "anyOf" in field:
        kept = {"type": ["integer", "string", "null"], "pattern": "^auto$", "minimum": 1}
    return {"description": field["description"], **kept}


def _type(choices: list[dict[str, Any]]) -> str:
    """Lists, rates and paths are written as text."""
    kinds = {choice["type"] for choice in choices if "type" in choice} - {"null", "array"}
    return kinds.pop() if len(kinds) == 1 else "string"


def main() -> None:
    """Writes the file."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    schema["properties"]["settings"]["properties"] = properties()
    SCHEMA.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
