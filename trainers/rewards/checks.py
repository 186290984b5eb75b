"""Checks of what users write into a reward: each returns the value, or raises ``ValueError`` saying what is wrong."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

SCHEMA_CHARACTERS = 100_000


def checked_pattern(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return value


def checked_code(value: str) -> str:
    """Python that defines ``reward``."""
    try:
        tree = compile(value, "reward.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise ValueError(f"line {line}: {getattr(error, 'msg', error)}" if line else str(error)) from error
    except (RecursionError, MemoryError) as error:
        raise ValueError("it is nested too deeply to be read") from error
    if "reward" not in tree.co_names and "reward" not in tree.co_varnames:
        raise ValueError("it must define a function `reward(prompt, completion, answer, row)`")
    return value


def checked_schema(value: dict[str, Any]) -> dict[str, Any]:
    """A JSON Schema that refers to nothing outside of itself."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        if len(json.dumps(value)) > SCHEMA_CHARACTERS:
            raise ValueError(f"the schema has more than {SCHEMA_CHARACTERS:,} characters")
        outside = next((ref for ref in _references(value) if not ref.startswith("#")), None)
        if outside is not None:
            raise ValueError(f"the schema refers to {outside!r}; it may only refer to parts of itself (#/$defs/...)")
        validator_for(value).check_schema(value)
    except SchemaError as error:
        place = "/".join(str(step) for step in error.absolute_path)
        raise ValueError(f"not a JSON Schema: {error.message}" + (f" (at {place})" if place else "")) from error
    except RecursionError as error:
        raise ValueError("the schema is nested too deeply") from error
    return value


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [item for key, item in value.items() if key in ("$ref", "$dynamicRef") and isinstance(item, str)]
        return own + [found for item in value.values() for found in _references(item)]
    if isinstance(value, list):
        return [found for item in value for found in _references(item)]
    return []


def checked_endpoint(value: str) -> str:
    """An http(s) address without user, query or fragment, and without a slash at its end."""
    try:
        parts = urlsplit(value.strip())
        port = parts.port
    except ValueError as error:
        raise ValueError(f"not an address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write an address such as https://api.example.com/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the address must hold no user name or password; keep the key as a secret of the workspace")
    if parts.query or parts.fragment:
        raise ValueError("the address must have no ? or # in it")
    del port
    return value.strip().rstrip("/")


def checked_template(value: str) -> str:
    if "{completion}" not in value:
        raise ValueError("it must hold {completion}, where the completion to be judged is put")
    return value
