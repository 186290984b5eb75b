"""Where the long proofs write what they measured: one JSON file each under docs/proofs/."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def write(name: str, command: str, measured: dict[str, Any]) -> None:
    """Store ``measured`` with the date, the commit, the kind of machine, and the command that measures it again."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True, capture_output=True)
    record = {
        "measured": measured,
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit.stdout.strip() or None,
        "machine": {"cores": os.cpu_count(), "architecture": platform.machine(), "load": round(os.getloadavg()[1], 2)},
    }
    folder = ROOT / "docs" / "proofs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
