"""The API's description of itself."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.rest.api import api

SNAPSHOT = Path(__file__).resolve().parents[3] / "docs" / "openapi.json"


def test_the_schema_in_the_docs_is_the_schema_of_the_code():
    current = json.loads(json.dumps(api.get_openapi_schema()))
    assert json.loads(SNAPSHOT.read_text(encoding="utf-8")) == current, (
        "docs/openapi.json is out of date: python manage.py export_openapi_schema --api gateway.rest.api.api "
        "--indent 1 --sorted --output docs/openapi.json"
    )


def test_every_operation_says_what_it_does_and_how_it_refuses():
    for path, operations in api.get_openapi_schema()["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            assert operation["security"] == [{"Bearer": []}, {"ApiKey": []}], (method, path)
            assert {401, 422, 429} <= set(operation["responses"]), (method, path)
            if "{" in path:
                assert 404 in operation["responses"], (method, path)
