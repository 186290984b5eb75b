"""The web process stays small: what only training needs is not loaded to show a page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import json, sys
sys.path[:0] = ["platform", "."]
import config.asgi
from django.urls import get_resolver
from django.urls.resolvers import URLResolver
def load(resolver):
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            load(pattern)
load(get_resolver())
print(json.dumps(sorted({"ray", "torch", "transformers", "peft"} & set(sys.modules))))
"""


def test_pages_and_api_load_neither_ray_nor_torch(tmp_path):
    env = os.environ | {
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "TUNEYARD_HOME": str(tmp_path),
    }
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, env=env, text=True, capture_output=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []
