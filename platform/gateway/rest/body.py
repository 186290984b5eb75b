"""Reading what programs send: JSON that the database can hold, nothing cleverer."""

from __future__ import annotations

import json
from typing import Any, NoReturn, cast

from django.http import HttpRequest
from django.utils.datastructures import MultiValueDict
from ninja.parser import Parser
from ninja.types import DictStrAny

DEEPEST = 60


class BadBody(ValueError):
    """The body is no JSON, or holds what no field can hold; the message says which."""


class StrictParser(Parser):
    """JSON objects only; NaN, lone surrogates, the NUL character and endless nesting are refused by name."""

    def parse_body(self, request: HttpRequest) -> DictStrAny:
        try:
            value = json.loads(request.body, parse_constant=_no_constant)
        except BadBody:
            raise
        except RecursionError:
            raise BadBody(f"The JSON is nested deeper than {DEEPEST} levels.") from None
        except ValueError as error:
            raise BadBody(f"The body is not JSON: {error}.") from None
        if not isinstance(value, dict):
            raise BadBody("The body must be a JSON object.")
        _check(value, "", 0)
        return cast("DictStrAny", value)

    def parse_querydict(
        self, data: MultiValueDict[str, Any], list_fields: list[str], request: HttpRequest
    ) -> DictStrAny:
        for key in data:
            for value in data.getlist(key):
                if isinstance(value, str):
                    _check_text(value, key)
        return super().parse_querydict(data, list_fields, request)


def _no_constant(name: str) -> NoReturn:
    raise BadBody(f"The body is not JSON: {name} is no JSON number.")


def _check(value: Any, path: str, depth: int) -> None:
    if depth > DEEPEST:
        raise BadBody(f"The JSON is nested deeper than {DEEPEST} levels.")
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key, path)
            _check(item, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check(item, f"{path}.{index}", depth + 1)


def _check_text(text: str, path: str) -> None:
    if "\x00" in text:
        raise BadBody(f"{path or 'The body'} contains the NUL character, which cannot be stored; leave it out.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadBody(f"{path or 'The body'} contains half of a Unicode character (a lone surrogate).") from None
