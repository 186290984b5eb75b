"""The data folder of one installation, and the addresses its running parts have written into it."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from config.launcher.problems import Problem

ROOT = Path(__file__).resolve().parents[2]


def home() -> Path:
    """``TUNEYARD_HOME``, or ``.tuneyard`` beside manage.py: two checkouts never share their data."""
    return Path(os.environ.get("TUNEYARD_HOME") or ROOT / ".tuneyard").resolve()


def endpoints(folder: Path | None = None) -> dict[str, str]:
    """Addresses of the parts the launcher runs now (``DATABASE_URL``, ``REDIS_URL`` ...); empty when none runs.

    So that ``manage.py shell`` in another terminal reaches the same database without any setting.
    """
    try:
        value = json.loads(((folder or home()) / "endpoints.json").read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if isinstance(key, str) and isinstance(item, str)}


def celery_broker(url: str) -> str:
    """The broker address as Celery spells it: a unix socket has a scheme of its own there."""
    if not url.startswith("unix://"):
        return url
    path, _, options = url.removeprefix("unix://").partition("?")
    number = dict(pair.split("=", 1) for pair in options.split("&") if "=" in pair).get("db", "0")
    return f"redis+socket://{path}?virtual_host={number}"


def adopt_ray() -> None:
    """Put what Ray reads from the environment alone (its token) there, for programs beside the running launcher.

    Nothing is done where RAY_ADDRESS names another cluster.
    """
    if "RAY_ADDRESS" not in os.environ:
        for key, value in endpoints().items():
            if key.startswith("RAY_") and key != "RAY_ADDRESS":
                os.environ.setdefault(key, value)


def secret_key() -> str:
    """The installation's signing key, made once: a restart keeps every session and token valid.

    Raises:
        Problem: the data folder cannot be written.
    """
    path = home() / "secret_key"
    try:
        return _read_or_make(path)
    except OSError as error:
        raise Problem(
            f"The data folder {path.parent} cannot be used: {error.filename or path}: {error.strerror}. "
            f"Give it to the user you start as, or choose another one with TUNEYARD_HOME."
        ) from error


def _read_or_make(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"secret_key.{os.getpid()}")
    draft.write_text(secrets.token_urlsafe(48))
    draft.chmod(0o600)
    try:
        # A hard link fails when another process was first; its key then holds for both.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text().strip()
