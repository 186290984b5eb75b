"""The client as users get it: a wheel of its own, with two dependencies."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

CLIENT = Path(__file__).resolve().parents[3] / "platform" / "tuneyard"


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_wheel_installs_alone_and_needs_only_httpx_and_rich(tmp_path):
    wheels = tmp_path / "wheels"
    source = tmp_path / "source"
    # Built from a copy, so that nothing is left in the source tree.
    subprocess.run(
        [sys.executable, "-c", "import shutil, sys; shutil.copytree(*sys.argv[1:])", CLIENT, source], check=True
    )
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", wheels, source]
    subprocess.run(command, check=True)
    (wheel,) = wheels.glob("tuneyard-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    roots = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert roots == {"tuneyard"}
    assert "tuneyard/py.typed" in names
    assert "tuneyard/cli/__init__.py" in names

    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", wheel], check=True)
    code = (
        "import importlib.metadata as m, tuneyard\n"
        "from tuneyard import *\n"
        "assert all(getattr(tuneyard, name) for name in tuneyard.__all__)\n"
        "RLTask({'dataset_path': 'a.json'}, reward='numeric').to_spec()\n"
        "print(' '.join(sorted(d.metadata['Name'].lower() for d in m.distributions())))\n"
    )
    shown = subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path
    ).stdout.split()
    allowed = {
        "tuneyard", "pip", "setuptools", "httpx", "httpcore", "h11", "certifi", "idna", "anyio", "sniffio",
        "typing_extensions", "exceptiongroup", "rich", "markdown-it-py", "mdurl", "pygments",
    }  # fmt: skip
    assert set(shown) <= allowed
    command = [environment / "bin" / "tuneyard", "--version"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.startswith("tuneyard 0.")


def test_the_client_knows_nothing_of_the_server():
    packages = {
        "django", "pydantic", "torch", "ray", "trainers", "config", "delivery", "workspaces", "records", "catalog",
        "compute", "billing", "jobs", "gateway", "portal",
    }  # fmt: skip
    code = (
        "import sys, pkgutil, importlib, tuneyard\n"
        "for m in pkgutil.walk_packages(tuneyard.__path__, 'tuneyard.'):\n"
        "    m.name.endswith('__main__') or importlib.import_module(m.name)\n"
        "print('\\n'.join({n.split('.')[0] for n in sys.modules}))\n"
    )
    path = str(CLIENT.parent)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {path!r})\n{code}"]
    loaded = set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert "tuneyard" in loaded
    assert not loaded & packages
