"""Files larger than the memory that the check may use, in a process of its own so that its peak can be seen."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import proofs

ROOT = Path(__file__).parents[3]
CHECK = textwrap.dedent("""
    import json, sys
    from pathlib import Path
    from trainers.data.inspection import inspect_dataset
    path = Path(sys.argv[1])
    with path.open("rb") as file:
        report = inspect_dataset(file, path.name)
    # Not getrusage, whose peak is inherited from the process that started this one.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    print(json.dumps({"rows": report.rows, "usable": report.usable, "problems": len(report.problems), "peak": peak}))
""")


def rows(count: int, padding: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"question": f"What is {number} + 1?", "answer": str(number + 1), "note": "x" * padding}


def write_jsonl(path: Path, count: int, padding: int) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(count, padding))


def write_json(path: Path, count: int, padding: int) -> None:
    with path.open("w") as file:
        file.write('{"data": [\n')
        for number, row in enumerate(rows(count, padding)):
            file.write((",\n" if number else "") + json.dumps(row))
        file.write("\n]}\n")


def write_gzip(path: Path, count: int, padding: int) -> None:
    with gzip.open(path, "wt", compresslevel=1) as file:
        for row in rows(count, 0):  # padding would pack to nothing, and look like a bomb
            file.write(json.dumps({**row, "note": os.urandom(padding // 2).hex()}) + "\n")


def write_parquet(path: Path, count: int, padding: int) -> None:
    batch = 20_000
    schema = pa.schema({"question": pa.string(), "answer": pa.string(), "note": pa.string()})
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, count, batch):
            numbers = range(start, min(start + batch, count))
            columns = {
                "question": [f"What is {number} + 1?" for number in numbers],
                "answer": [str(number + 1) for number in numbers],
                "note": ["x" * padding] * len(numbers),
            }
            writer.write_table(pa.table(columns, schema=schema))


WRITERS = {"d.jsonl": write_jsonl, "d.json": write_json, "d.jsonl.gz": write_gzip, "d.parquet": write_parquet}


def checked(path: Path) -> dict[str, Any]:
    run = subprocess.run([sys.executable, "-c", CHECK, str(path)], cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.mark.full
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_two_hundred_megabytes_takes_the_memory_of_a_small_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path, 20_000, 10_000)
    found = checked(path)
    assert (found["rows"], found["usable"]) == (20_000, 20_000)
    assert found["peak"] < 200 << 20, f"{found['peak'] >> 20} MiB"


@pytest.mark.prove
@pytest.mark.parametrize("name", ["d.jsonl", "d.parquet"])
def test_a_file_of_two_gigabytes_does_not_enter_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path, 1_000_000, 2_000)
    size = path.stat().st_size
    found = checked(path)
    command = "make prove PYTEST_ARGS='-k two_gigabytes'"
    proofs.write(f"data_memory_{name.rpartition('.')[2]}", command, {"file_bytes": size, **found})
    assert size > 2_000_000_000 and found["usable"] == 1_000_000
    assert found["peak"] < 400 << 20, f"{found['peak'] >> 20} MiB"


@pytest.mark.full
def test_a_line_of_a_hundred_megabytes_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    with path.open("wb") as file:
        file.write(b'{"question": "a"}\n{"question": "')
        for _ in range(100):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n{"question": "c"}\n')
    found = checked(path)
    assert (found["rows"], found["usable"]) == (3, 2) and found["peak"] < 150 << 20
