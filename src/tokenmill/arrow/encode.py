"""A table with a column of texts → the table with a column of their ids.

The core reads texts in Arrow's memory, and Arrow shows ids in the core's memory, without a Python
object per row.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tokenmill import arguments
from tokenmill.corpus.tables import memory_of, text_array
from tokenmill.errors import InputError, import_package
from tokenmill.tokenizer import SpecialsChoice, Tokenizer
from tokenmill.tokenizing.options import find_token

_OFFSET_MAX = (1 << 31) - 1
# A worker process usually has one tokenizer. Each takes megabytes, so old ones are dropped.
_LOADED_MAX = 4
_loaded: dict[bytes, Tokenizer] = {}


class Encode:
    """A callable, table in and table out, that engines send to their workers.

    >>> import pyarrow
    >>> encode = Encode("gpt2")
    >>> encode(pyarrow.table({"text": ["hello world", None]}))["tokens"].to_pylist()
    [[31373, 995], None]

    A pyarrow Table or RecordBatch becomes one with the column `output`. An array, or a Daft series,
    becomes a column of ids. Lists are `large_list<uint16>` if the vocabulary fits and otherwise
    `large_list<uint32>`, unless `dtype` is given. A null stays null.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | str | os.PathLike[str],
        column: str = "text",
        output: str = "tokens",
        *,
        dtype: DTypeLike | None = None,
        allowed_special: SpecialsChoice = False,
        eos: int | str | None = None,
        bos: int | str | None = None,
        keep: bool | Sequence[str] = True,
        threads: int | None = 1,
    ) -> None:
        """`keep` are the columns of the input in the result: all, none, or some by name. With the
        same name for `column` and `output`, the ids replace the texts. `eos` and `bos` are those of
        `tokenmill.tokenize`. Engines run a task on each core, so `threads` is 1."""
        import_package("pyarrow", "tokenmill.arrow.Encode")
        for name, value in (("column", column), ("output", output)):
            if not isinstance(value, str):
                raise TypeError(f"{name} must be the name of a column, not {value!r}")
        loaded = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
        self._tokenizer: Tokenizer | None = loaded
        self._packed = self._digest = b""
        self._column = column
        self._output = output
        self._keep = keep if isinstance(keep, bool) else _names(keep)
        loaded._allowed(allowed_special)  # which raises for one that is unknown
        self._allowed = allowed_special
        before, after = find_token(loaded, bos, "bos"), find_token(loaded, eos, "eos")
        self._before = b"" if before is None else np.uint32(before).tobytes()
        self._after = b"" if after is None else np.uint32(after).tobytes()
        fits = loaded.vocab_size <= 1 << 16
        self._narrow = fits if dtype is None else loaded._is_narrow(dtype)
        self._threads = None if threads is None else arguments.thread_count(threads)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer. It is loaded on first use."""
        if self._tokenizer is None:
            found = _loaded.get(self._digest)
            if found is None:
                # The bytes came in a pickle and are as safe as it is.
                found = pickle.loads(self._packed)  # noqa: S301
            self._tokenizer = _share(self._digest, found)
        return self._tokenizer

    def __getstate__(self) -> dict[str, Any]:
        """The state with the pickled tokenizer and its digest.

        Engines unpickle a callable for every task. A process that has loaded a tokenizer of this
        digest uses it again. The pickle of an embedded tokenizer has only its name and special
        tokens.
        """
        if self._tokenizer is not None and not self._packed:
            self._packed = pickle.dumps(self._tokenizer, pickle.HIGHEST_PROTOCOL)
            self._digest = hashlib.sha256(self._packed).digest()
            _share(self._digest, self._tokenizer)  # for tasks in this process
        return self.__dict__ | {"_tokenizer": None}

    @property
    def type(self) -> Any:
        """The Arrow type of the column of ids."""
        pa = import_package("pyarrow", "tokenmill.arrow.Encode")
        return pa.large_list(pa.uint16() if self._narrow else pa.uint32())

    def schema(self, schema: Any) -> Any:
        """The schema of the result for that of an input: Arrow's, or Spark's for `mapInArrow`."""
        if is_spark(schema):
            types = importlib.import_module("pyspark.sql.types")
            ids = types.StructField(self._output, types.ArrayType(types.IntegerType(), False))
            return types.StructType(self._arrange(schema.names, schema.fields, ids))
        find_column(schema, self._column)
        return self._schema(import_package("pyarrow", "tokenmill.arrow.Encode"), schema, self.type)

    def _schema(self, pa: Any, schema: Any, kind: Any) -> Any:
        fields = self._arrange(schema.names, list(schema), pa.field(self._output, kind))
        return pa.schema(fields, schema.metadata)

    def __call__(self, batch: Any) -> Any:
        """A Table, RecordBatch or column with ids."""
        pa = import_package("pyarrow", "tokenmill.arrow.Encode")
        if isinstance(batch, pa.Table | pa.RecordBatch):
            return self._table(pa, batch, self.type)
        return self._lists(pa, arrow_of(pa, batch), self.type)

    def map_in_arrow(self, batches: Iterable[Any]) -> Iterator[Any]:
        """RecordBatches with ids, for Spark's `mapInArrow`.

        Spark has neither unsigned numbers nor large lists, so these are `list<int32>`.
        """
        pa = import_package("pyarrow", "tokenmill.arrow.Encode")
        for batch in batches:
            yield self._table(pa, batch, pa.list_(pa.int32()))

    def _table(self, pa: Any, table: Any, kind: Any) -> Any:
        place = find_column(table.schema, self._column)
        ids = self._lists(pa, table.column(place), kind)
        schema = self._schema(pa, table.schema, kind)
        arrays = self._arrange(table.schema.names, table.columns, ids)
        return type(table).from_arrays(arrays, schema=schema)

    def _lists(self, pa: Any, array: Any, kind: Any) -> Any:
        if isinstance(array, pa.ChunkedArray):
            return pa.chunked_array([self._lists(pa, chunk, kind) for chunk in array.chunks], kind)
        if pa.types.is_dictionary(array.type) and len(array.dictionary) <= len(array):
            # Each text is encoded once. The dictionary of a slice may be longer than the slice.
            return self._lists(pa, array.dictionary, kind).take(array.indices)
        view, spans, valid = text_spans(array, self._column)
        narrow = pa.types.is_uint16(kind.value_type)
        ids, ends = self.tokenizer._encode_spans(
            view, spans, self._allowed, before=self._before, after=self._after, narrow=narrow,
            threads=arguments.thread_count(self._threads),
        )  # fmt: skip
        return _id_lists(pa, kind, ids, ends, valid)

    def _arrange(self, names: Sequence[str], columns: Sequence[Any], ids: Any) -> list[Any]:
        """The columns of the result: those of the input that are kept, and the ids."""
        kept = names if self._keep is True else self._keep or ()
        missing = [name for name in kept if name not in names]
        if missing:
            raise InputError(
                f"keep names the column {missing[0]!r}, and the table has "
                f"{', '.join(map(repr, names)) or 'none'}"
            )
        if self._output in kept and self._output != self._column:
            raise InputError(
                f"the table has a column {self._output!r} already; give the ids another name with "
                "output=, or leave that column out with keep="
            )
        found = [
            ids if name == self._output else column
            for name, column in zip(names, columns, strict=True)
            if name in kept
        ]
        return found if self._output in kept else [*found, ids]

    def __repr__(self) -> str:
        ids = "uint16" if self._narrow else "uint32"
        return f"<Encode {self._column!r} → {self._output!r}: {self.tokenizer.name}, {ids}>"


def _names(keep: Any) -> tuple[str, ...]:
    if isinstance(keep, str | bytes) or not isinstance(keep, Iterable):
        raise TypeError(f"keep must be True, False or names of columns, not {keep!r}")
    return tuple(keep)


def _share(digest: bytes, tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer of a digest. The first thread that loads one shares it with the others."""
    shared = _loaded.setdefault(digest, tokenizer)
    for old in list(_loaded)[:-_LOADED_MAX]:
        _loaded.pop(old, None)
    return shared


# Columns.


def find_column(schema: Any, column: str) -> int:
    """The index of a column of texts."""
    found = schema.get_all_field_indices(column)
    if len(found) != 1:
        what = "has no column" if not found else "has more than one column"
        raise InputError(
            f"the table {what} {column!r}; its columns are "
            f"{', '.join(map(repr, schema.names)) or 'none'}. Name the right one with column="
        )
    return int(found[0])


def is_spark(schema: Any) -> bool:
    """Whether a schema is a Spark schema and not an Arrow schema."""
    return type(schema).__module__.split(".")[0] == "pyspark"


def arrow_of(pa: Any, values: Any) -> Any:
    """The Arrow array, chunked or not, of an array or an engine's series."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "to_arrow"):  # Daft and Polars
        return values.to_arrow()
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if hasattr(values, "__arrow_c_array__"):
        return pa.array(values)
    raise TypeError(
        "expected a pyarrow Table, RecordBatch, Array or ChunkedArray, or a series with an Arrow "
        f"interface, got {type(values).__name__}; in Ray Data use batch_format='pyarrow'"
    )


def text_spans(
    array: Any, column: str
) -> tuple[memoryview, NDArray[np.int64], NDArray[np.bool_] | None]:
    """The memory of texts, the span of each that is not null, and which are not null."""
    if hasattr(array, "dictionary_decode"):
        array = array.dictionary_decode()
    if str(array.type) == "null":
        array = array.cast("large_binary")
    try:
        array = text_array(array, f"column {column!r}")
    except InputError as error:
        raise InputError(
            f"{error}; name a column of string, large_string, string_view or binary with column="
        ) from None
    view, spans = memory_of(array)
    if not array.null_count:
        return view, spans, None
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return view, spans[valid], valid


def _id_lists(
    pa: Any, kind: Any, ids: Any, ends: NDArray[np.int64], valid: NDArray[np.bool_] | None
) -> Any:
    """A column of lists over the memory of `ids`. `ends` are those of valid rows."""
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    validity, nulls = None, 0
    if valid is not None:
        # A null has no ids: it ends where the row before it does.
        offsets = offsets[np.concatenate([[0], np.cumsum(valid)])]
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
        nulls = int(len(valid) - np.count_nonzero(valid))
    if not pa.types.is_large_list(kind):
        if int(offsets[-1]) > _OFFSET_MAX:
            raise InputError(
                f"a batch has {int(offsets[-1]):,} ids, and a Spark list at most "
                f"{_OFFSET_MAX:,}; lower spark.sql.execution.arrow.maxRecordsPerBatch"
            )
        offsets = offsets.astype(np.int32)
    values = pa.Array.from_buffers(kind.value_type, len(ids), [None, pa.py_buffer(ids)])
    buffers = [validity, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers, nulls, children=[values])
