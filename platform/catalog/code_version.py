"""Which code is running: the release, and the commit where this is a checkout."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from pathlib import Path

from django.conf import settings

PACKAGE = "tuneyard-server"


@cache
def code_version() -> str:
    """``0.1.0+1a2b3c4d5e6f``; only the release where neither the setting ``COMMIT`` nor git's data tell."""
    found = (settings.COMMIT or _checked_out(Path(settings.BASE_DIR) / ".git")).strip()[:12]
    try:
        release = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        release = "unreleased"
    return f"{release}+{found}" if found else release


def _checked_out(git: Path) -> str:
    try:
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head
        name = head.removeprefix("ref: ")
        if (git / name).is_file():
            return (git / name).read_text()
        packed = (git / "packed-refs").read_text().splitlines()
        return next((line.split(" ")[0] for line in packed if line.endswith(f" {name}")), "")
    except OSError:
        return ""
