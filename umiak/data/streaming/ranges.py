"""Text as chunks: ranges of bytes that begin and end with a line. CSV, TSV and JSON lines become tables, .txt stays lines."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from umiak.data.streaming.cache import Cache
from umiak.data.streaming.places import File, opened, unreadable
from umiak.errors import InputError

CHUNK_BYTES = 16 << 20
COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
_NEWLINE, _RETURN, _QUOTE = b"\n"[0], b"\r"[0], b'"'[0]


class Seen(NamedTuple):
    """What a look at a file found."""

    chunks: list[tuple[int, int, int]]
    """Rows, begin and end of each."""
    schema: Any
    whole: str
    """Why the file is one chunk, where it might have been several."""


class Look:
    """Finds the chunks of a text file by reading it once."""

    def __init__(self, kind: str, header: bool) -> None:
        self._kind, self._header = kind, header

    def __call__(self, file: File) -> Seen:
        codec = codec_of(file)
        try:
            with opened(file) as source:
                if codec:
                    return self._whole(file, f"{codec} cannot be read from the middle")
                names = self._names(source.read(min(file.size, CHUNK_BYTES)))
                begin = len(names)
                chunks: list[tuple[int, int, int]] = []
                while begin < file.size:
                    source.seek(begin)
                    block = source.read(CHUNK_BYTES)
                    end = begin + len(block)
                    if end < file.size:
                        end = begin + block.rfind(b"\n") + 1
                        if end == begin:
                            raise InputError(f"{file.path} has a line of more than {CHUNK_BYTES >> 20} MB: is it text?")
                    lines = block[: end - begin]
                    if self._kind == ".csv" and _breaks_in_quotes(lines):
                        return self._whole(file, "it has line breaks inside quotes")
                    chunks.append((count_lines(lines, blank=self._kind == ".txt"), begin, end))
                    begin = end
                schema = self._schema(file, chunks[0], names) if chunks else None
                return Seen(chunks, schema, "")
        except OSError as error:
            raise unreadable(file.path, error) from None

    def _names(self, block: bytes) -> bytes:
        """The line that names the columns, if there is one."""
        return block[: block.find(b"\n") + 1] if self._header and self._kind in (".csv", ".tsv") else b""

    def _whole(self, file: File, why: str) -> Seen:
        if self._kind == ".txt":
            return Seen([(count_lines(data_of(file, 0, file.size), blank=True), 0, file.size)], None, why)
        table = table_of(self._kind, self._header, file, (0, 0, file.size), None)
        return Seen([(table.num_rows, 0, file.size)], table.schema.remove_metadata(), why)

    def _schema(self, file: File, chunk: tuple[int, int, int], names: bytes) -> Any:
        if self._kind == ".txt":
            return None
        return table_of(self._kind, self._header, file, chunk, None).schema.remove_metadata()


def codec_of(file: File) -> str | None:
    return next((codec for ending, codec in COMPRESSED.items() if file.path.endswith(ending)), None)


def data_of(file: File, begin: int, end: int, cache: Cache | None = None) -> bytes:
    """The bytes of a chunk, unpacked."""
    import pyarrow

    codec = codec_of(file)
    try:
        with opened(file, cache) as source:
            if codec:
                with pyarrow.CompressedInputStream(source, codec) as unpacked:
                    data: bytes = unpacked.read()
            else:
                source.seek(begin)
                data = source.read(end - begin)
    except (OSError, pyarrow.ArrowException) as error:
        if codec:
            raise InputError(f"{file.path} is damaged: {str(error).splitlines()[0]}; fetch it again") from None
        raise unreadable(file.path, error) from None
    return data


def lines_of(file: File, begin: int, end: int, cache: Cache | None = None) -> list[str]:
    """The lines of a chunk of .txt."""
    try:
        return [line.rstrip("\r\n") for line in io.StringIO(data_of(file, begin, end, cache).decode(), newline="")]
    except UnicodeDecodeError:
        raise InputError(f"{file.path} is not UTF-8 after byte {begin}; convert it, for example with iconv") from None


def table_of(
    kind: str, header: bool, file: File, chunk: tuple[int, int, int], schema: Any, cache: Cache | None = None
) -> Any:
    """The table of a chunk; without a schema its columns are what they look like."""
    import pyarrow

    _, begin, end = chunk
    data = pyarrow.py_buffer(data_of(file, begin, end, cache))
    try:
        if kind == ".jsonl":
            return _json(data, schema)
        return _csv(data, kind, _column_names(kind, header, file) if begin else None, header, schema)
    except pyarrow.ArrowException as error:
        what = str(error).splitlines()[0]
        raise InputError(
            f"{file.path}, bytes {begin} to {end}: {what}; correct the file, or give a parse function"
        ) from None


def _json(data: Any, schema: Any) -> Any:
    from pyarrow import BufferReader, json

    options = json.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "error"
    )
    return json.read_json(
        BufferReader(data), json.ReadOptions(use_threads=False, block_size=max(data.size, 1)), options
    )


def _csv(data: Any, kind: str, names: Sequence[str] | None, header: bool, schema: Any) -> Any:
    from pyarrow import BufferReader, csv

    quoted = kind == ".csv"
    # The block is the whole chunk, so that a column's kind is that of all its rows.
    read = csv.ReadOptions(
        use_threads=False,
        block_size=max(data.size, 1),
        column_names=names,
        autogenerate_column_names=not header and names is None,
    )
    parse = csv.ParseOptions(
        delimiter="," if quoted else "\t", quote_char='"' if quoted else False, newlines_in_values=quoted
    )
    kinds = None if schema is None else {field.name: field.type for field in schema}
    return csv.read_csv(BufferReader(data), read, parse, csv.ConvertOptions(column_types=kinds))


@functools.lru_cache(maxsize=1024)
def _column_names(kind: str, header: bool, file: File) -> list[str]:
    """The columns of a chunk that does not begin with the line that names them. Read once per file."""
    import pyarrow

    with opened(file) as source:
        block = source.read(1 << 20)
    line = block[: block.find(b"\n") + 1] or block
    table = _csv(pyarrow.py_buffer(line), kind, None, header, None)
    return list(table.column_names)


def count_lines(data: bytes, blank: bool) -> int:
    """The lines of a text; blank ones only if they count. The last may lack its line break."""
    bytes_ = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(bytes_ == _NEWLINE)
    lengths = np.diff(ends, prepend=-1) - 1
    rest = len(data) - (int(ends[-1]) + 1 if ends.size else 0)
    if blank:
        return int(ends.size) + (rest > 0)
    single = ends[lengths == 1] - 1
    empty = int((lengths == 0).sum()) + int((bytes_[single] == _RETURN).sum())
    return int(ends.size) - empty + (data[len(data) - rest :].strip() != b"" if rest else 0)


def _breaks_in_quotes(data: bytes) -> bool:
    """Whether a line ends inside quotes: an odd number of them comes before its end."""
    bytes_ = np.frombuffer(data, np.uint8)
    marks = bytes_[(bytes_ == _NEWLINE) | (bytes_ == _QUOTE)]
    inside = np.cumsum(marks == _QUOTE) % 2 == 1
    return bool((inside & (marks == _NEWLINE)).any())
