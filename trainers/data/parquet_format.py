"""Parquet files, read a few hundred rows at a time; a record's line is its row, counted from 1."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, BinaryIO

from trainers.data.faults import UnreadableFile
from trainers.data.record import Record, RowFault
from trainers.data.source import ROW_BYTES

MAGIC = b"PAR1"
BATCH_ROWS = 256
GROUP_BYTES = 2 << 30
_BUFFER_BYTES = 1 << 20
_FOOTER_BYTES = 64 << 20
_ADVICE = "Write the file again, or save it as JSONL."


class ParquetReader:
    """Rows of a Parquet file. Raises :class:`UnreadableFile` for one whose structure cannot be used."""

    def __init__(self, file: BinaryIO) -> None:
        import pyarrow as pa  # late: most files are none of these, and it takes a third of a second
        import pyarrow.parquet as pq

        self._pa = pa
        try:
            self._file = pq.ParquetFile(
                file,
                buffer_size=_BUFFER_BYTES,
                pre_buffer=False,
                thrift_string_size_limit=_FOOTER_BYTES,
                thrift_container_size_limit=_FOOTER_BYTES,
            )
            schema = self._file.schema_arrow
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UnreadableFile(f"The Parquet file cannot be read: {_reason(error)}.", _ADVICE) from error
        names: list[str] = schema.names
        doubled = next((name for index, name in enumerate(names) if name in names[:index]), None)
        if doubled is not None:
            raise UnreadableFile(f"Two columns of the Parquet file are called {doubled!r}.", "Rename one of them.")
        self._odd = [field.name for field in schema if not self._plain(field.type)]

    def records(self) -> Iterator[Record]:
        row = 0
        try:
            for group in range(self._file.num_row_groups):
                size = self._file.metadata.row_group(group).total_byte_size
                if size > GROUP_BYTES:
                    advice = "Write it with smaller row groups (row_group_size=10000)."
                    raise UnreadableFile(
                        f"Row group {group + 1} of the Parquet file has {size >> 20:,} MiB.", advice, row + 1
                    )
                for batch in self._file.iter_batches(BATCH_ROWS, row_groups=[group], use_threads=False):
                    for columns in batch.to_pylist():
                        row += 1
                        yield self._record(row, columns)
        except (self._pa.ArrowException, OSError, ValueError, OverflowError, RecursionError) as error:
            if isinstance(error, UnreadableFile):
                raise
            message = f"The Parquet file is damaged after row {row:,}: {_reason(error)}."
            raise UnreadableFile(message, _ADVICE, row + 1) from error

    def _record(self, row: int, columns: dict[str, Any]) -> Record:
        for name in self._odd:
            columns[name] = _as_json(columns[name])
        for name, value in columns.items():
            if isinstance(value, str) and len(value) > ROW_BYTES:
                fault = RowFault(
                    "too_long", f"Column {name!r} is longer than {ROW_BYTES >> 20} MiB.", "Shorten it.", name
                )
                return Record(row, None, fault)
        return Record(row, columns)

    def _plain(self, kind: Any) -> bool:
        """Whether values of a type come as JSON knows them."""
        types = self._pa.types
        if types.is_list(kind) or types.is_large_list(kind):
            return self._plain(kind.value_type)
        if types.is_struct(kind):
            return all(self._plain(kind.field(index).type) for index in range(kind.num_fields))
        simple = (types.is_string, types.is_large_string, types.is_integer, types.is_floating)
        return any(check(kind) for check in (*simple, types.is_boolean, types.is_null))


def _as_json(value: Any) -> Any:
    """Dates as ISO 8601, decimals as they are written, maps as objects; bytes as text where they are UTF-8."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, dict):
        return {name: _as_json(item) for name, item in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {str(name): _as_json(item) for name, item in value}
        return [_as_json(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return (text[:200] + "…" if len(text) > 200 else text) or type(error).__name__
