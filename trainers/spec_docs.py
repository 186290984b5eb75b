"""The task spec as documents: ``python -m trainers.spec_docs docs`` writes its JSON schema and its page."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainers.spec import json_schema

INTRO = """# The task spec

One document describes one training task. The browser form, REST and `RLTask` all build it, and it is checked once, for
all of them: an unknown field or an impossible value is refused with its path (`hyperparameters.learning_rate`).

This page is written from the code by `make schema`; [task-spec.schema.json](task-spec.schema.json) is the same as JSON
Schema. The smallest task of each recipe:

```json
{"recipe": "sft", "data": {"source": "dataset:<id>@1"}}
```

```json
{"recipe": "grpo", "data": {"source": "dataset:<id>@1"}, "reward": {"components": [{"kind": "numeric"}]}}
```

The same as YAML, which the browser and `tuneyard submit` read. The browser reads no tags, anchors or
aliases, and at most 200,000 characters:

```yaml
recipe: grpo
data:
  source: dataset:<id>@1
reward:
  components:
    - kind: numeric
# hyperparameters:
#   learning_rate: 0.0001
```

"""
LIMITS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
}


def documents() -> dict[str, str]:
    """File name → text of every document."""
    schema = json_schema()
    return {
        "task-spec.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        "task-spec.md": INTRO + "\n".join(_page(schema)),
    }


def _page(schema: dict[str, Any]) -> Iterator[str]:
    definitions = schema["$defs"]
    yield from _section("Top level", "", schema, definitions)
    for name, field in schema["properties"].items():
        if (target := _reference(field)) and target != "RewardSpec":
            yield from _section(f"`{name}`", f"{name}.", definitions[target], definitions)
    yield "## `reward`\n"
    yield definitions["RewardSpec"]["description"] + "\n"
    for kind, target in definitions["RewardSpec"]["properties"]["components"]["items"]["discriminator"][
        "mapping"
    ].items():
        yield from _section(f"`{kind}`", "", definitions[target.rpartition("/")[2]], definitions, level=3)


def _section(
    title: str, prefix: str, part: dict[str, Any], definitions: dict[str, Any], level: int = 2
) -> Iterator[str]:
    yield f"{'#' * level} {title}\n"
    if description := part.get("description"):
        yield description.strip() + "\n"
    yield "| field | value | default | meaning |\n| --- | --- | --- | --- |"
    required = set(part.get("required", ()))
    nested = []
    for name, field in part["properties"].items():
        target = _reference(field)
        if target and prefix and target in definitions:
            nested.append((f"{prefix}{name}", definitions[target]))
        default = "needed" if name in required else _default(field)
        yield f"| `{prefix}{name}` | {_kind(field)} | {default} | {field.get('description', '')} |"
    yield ""
    for name, definition in nested:
        yield from _section(f"`{name}`", f"{name}.", definition, definitions, level + 1)


def _reference(field: dict[str, Any]) -> str | None:
    for option in [field, *field.get("allOf", ()), *field.get("anyOf", ())]:
        if "$ref" in option:
            return str(option["$ref"]).rpartition("/")[2]
    return None


def _default(field: dict[str, Any]) -> str:
    if _reference(field):
        return "its own defaults" if "anyOf" not in field else "none"
    value = field.get("default")
    return "none" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _kind(field: dict[str, Any]) -> str:
    if _reference(field):
        return "see below"
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    options = [option for option in field.get("anyOf", [field]) if option.get("type") != "null"]
    limits = [words.format(options[0][key]) for key, words in LIMITS.items() if key in options[0]]
    name = {"integer": "whole number", "string": "text", "boolean": "true or false"}.get(
        options[0].get("type", ""), options[0].get("type", "any")
    )
    return ", ".join([name, *limits])


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for file_name, text in documents().items():
        (folder / file_name).write_text(text, encoding="utf-8")
