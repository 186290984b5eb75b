#!/usr/bin/env python
"""Django's command line; `manage.py up` starts the whole product on this machine."""

import os
import sys
from pathlib import Path


def main() -> None:
    root = Path(__file__).resolve().parent
    sys.path[:0] = [str(root / "platform"), str(root)]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        from django.core.management import execute_from_command_line

        from config.launcher.problems import Problem

        try:
            execute_from_command_line(sys.argv)
        except Problem as problem:
            sys.exit(str(problem))
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if (root / package).exists() or (root / "platform" / package).exists():
            raise
        sys.exit(f"{package} is not installed for {sys.executable}. Run `make setup` and start again.")


if __name__ == "__main__":
    main()
