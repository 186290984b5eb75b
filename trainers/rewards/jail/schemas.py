"""JSON by a schema. Patterns of a schema may run for ever on some texts, so it happens where it can be ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from jsonschema.validators import validator_for
from referencing import Registry

Emit = Callable[[dict[str, Any]], None]


def schemas(payload: dict[str, Any], emit: Emit) -> None:
    """``{samples: [[schema, text], ...]}`` → ``{i, parsed, fits}`` each, or ``{i, schema: why}`` for a broken schema.

    ``text`` is None where no JSON was found. A schema may refer to parts of itself, never to other documents.
    """
    made: dict[str, Any] = {}
    for index, (schema, text) in enumerate(payload["samples"]):
        key = json.dumps(schema, sort_keys=True)
        try:
            if key not in made:
                kind = validator_for(schema)
                kind.check_schema(schema)
                made[key] = kind(schema, registry=Registry())
        except Exception as error:
            emit({"i": index, "schema": str(getattr(error, "message", error))[:300]})
            return
        try:
            value = json.loads(text, parse_constant=_refuse)
        except (ValueError, TypeError, RecursionError):
            emit({"i": index, "parsed": False, "fits": False})
            continue
        try:
            fits = made[key].is_valid(value)
        except RecursionError:
            fits = False
        except Exception as error:  # a reference that leads nowhere shows only when it is followed
            emit({"i": index, "schema": str(error)[:300]})
            return
        emit({"i": index, "parsed": True, "fits": bool(fits)})


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


TASKS: dict[str, Callable[[dict[str, Any], Emit], None]] = {"schemas": schemas}
