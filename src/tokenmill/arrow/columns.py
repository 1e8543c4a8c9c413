"""Arrow columns → spans over their memory, and ids → columns of lists over the core's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus.columns import memory_of, text_array
from tokenmill.errors import InputError

_OFFSET_MAX = (1 << 31) - 1


def find(schema: Any, column: str) -> int:
    """The number of a column of texts."""
    places = schema.get_all_field_indices(column)
    if len(places) != 1:
        what = "has no column" if not places else "has more than one column"
        raise InputError(
            f"the table {what} {column!r}; its columns are "
            f"{', '.join(map(repr, schema.names)) or 'none'}. Name the right one with column="
        )
    return int(places[0])


def is_spark(schema: Any) -> bool:
    """Whether a schema is Spark's own and not Arrow's."""
    return type(schema).__module__.split(".")[0] == "pyspark"


def arrow_of(pa: Any, values: Any) -> Any:
    """An Arrow array, chunked or not: that, or what an engine's series shows as one."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "to_arrow"):  # Daft's and Polars'
        return values.to_arrow()
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if hasattr(values, "__arrow_c_array__"):
        return pa.array(values)
    raise TypeError(
        "a batch is a pyarrow Table, RecordBatch, Array or ChunkedArray, or a series that becomes "
        f"one, not {type(values).__name__}; in Ray Data use batch_format='pyarrow'"
    )


def texts(pa: Any, array: Any, column: str) -> Any:
    """The array as one of texts, one behind the other; any other type is refused by name."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return array.cast(pa.large_binary())
    try:
        return text_array(pa, array, f"column {column!r}")
    except InputError as error:
        raise InputError(
            f"{error}; name a column of string, large_string, string_view or binary with column="
        ) from None


def spans(pa: Any, array: Any) -> tuple[memoryview, NDArray[np.int64], NDArray[np.bool_] | None]:
    """The memory of texts, start and end of each that is not null, and which those are."""
    if not len(array):
        return memoryview(b""), np.empty((0, 2), np.int64), None
    view, offsets = memory_of(pa, array)
    places = offsets.astype(np.int64)
    found = np.stack([places[:-1], places[1:]], axis=1)
    if not array.null_count:
        return view, found, None
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return view, found[valid], valid


def lists(
    pa: Any, kind: Any, ids: Any, ends: NDArray[np.int64], valid: NDArray[np.bool_] | None
) -> Any:
    """A column of lists whose values are the memory of `ids`; `ends` are those of valid rows."""
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    validity, nulls = None, 0
    if valid is not None:
        # A null is as long as nothing: it ends where the row before it does.
        offsets = offsets[np.concatenate([[0], np.cumsum(valid)])]
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
        nulls = int(len(valid) - np.count_nonzero(valid))
    if not pa.types.is_large_list(kind):
        if int(offsets[-1]) > _OFFSET_MAX:
            raise InputError(
                f"a batch has {int(offsets[-1]):,} ids, and a list of Spark's at most "
                f"{_OFFSET_MAX:,}; lower spark.sql.execution.arrow.maxRecordsPerBatch"
            )
        offsets = offsets.astype(np.int32)
    values = pa.Array.from_buffers(kind.value_type, len(ids), [None, pa.py_buffer(ids)])
    buffers = [validity, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers, nulls, children=[values])
