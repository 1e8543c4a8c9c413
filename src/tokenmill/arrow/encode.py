"""A table with a column of texts → the table with a column of their ids.

The texts are read where Arrow has them and the ids stay where the core has put them: no Python
object is made for a row.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tokenmill import arguments
from tokenmill.arrow import columns
from tokenmill.arrow.parcel import Parcel
from tokenmill.corpus.columns import import_pyarrow
from tokenmill.errors import InputError
from tokenmill.tokenizer import SpecialsChoice, Tokenizer
from tokenmill.tokenizing.options import boundary


class Encode:
    """A callable, table in and table out, that engines send to their workers.

    >>> import pyarrow
    >>> encode = Encode("gpt2")
    >>> encode(pyarrow.table({"text": ["hello world", None]}))["tokens"].to_pylist()
    [[31373, 995], None]

    A pyarrow Table or RecordBatch becomes one with the column `output`; an array, or a series of
    Daft's, becomes a column of ids. Lists are `large_list<uint16>` where the vocabulary fits and
    `large_list<uint32>` else, unless `dtype` says which; a null stays null.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | str | os.PathLike[str],
        column: str = "text",
        output: str = "tokens",
        *,
        dtype: DTypeLike | None = None,
        specials: SpecialsChoice = False,
        eos: int | str | None = None,
        bos: int | str | None = None,
        keep: bool | Sequence[str] = True,
        threads: int | None = 1,
    ) -> None:
        """`keep` says which columns of the input the result has: all, none, or some by name. With
        the same name for `column` and `output` the ids stand where the text was. `eos` and `bos`
        are those of `tokenmill.tokenize`. Engines run a task on each core, so `threads` is 1."""
        import_pyarrow("tokenmill.arrow.Encode")
        for name, value in (("column", column), ("output", output)):
            if not isinstance(value, str):
                raise TypeError(f"{name} must be the name of a column, not {value!r}")
        loaded = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
        self._parcel = Parcel(loaded)
        self._column = column
        self._output = output
        self._keep = keep if isinstance(keep, bool) else _names(keep)
        self._allowed = loaded._allowed(specials)
        before, after = boundary(loaded, bos, "bos"), boundary(loaded, eos, "eos")
        self._before = b"" if before is None else np.uint32(before).tobytes()
        self._after = b"" if after is None else np.uint32(after).tobytes()
        fits = loaded.vocab_size <= 1 << 16
        self._narrow = fits if dtype is None else loaded._is_narrow(dtype)
        self._threads = None if threads is None else arguments.thread_count(threads)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, which is loaded here if it was not yet."""
        return self._parcel.tokenizer

    @property
    def type(self) -> Any:
        """The Arrow type of the column of ids."""
        pa = import_pyarrow("tokenmill.arrow.Encode")
        return pa.large_list(pa.uint16() if self._narrow else pa.uint32())

    def schema(self, schema: Any) -> Any:
        """The schema of the result for that of an input: Arrow's, or Spark's for `mapInArrow`."""
        if columns.is_spark(schema):
            return self._spark_schema(schema)
        pa = import_pyarrow("tokenmill.arrow.Encode")
        columns.find(schema, self._column)
        return self._schema(pa, schema, self.type)

    def _schema(self, pa: Any, schema: Any, kind: Any) -> Any:
        ids = pa.field(self._output, kind)
        places = self._places(schema.names)
        fields = [ids if place is None else schema.field(place) for place in places]
        return pa.schema(fields, schema.metadata)

    def _spark_schema(self, schema: Any) -> Any:
        types = importlib.import_module("pyspark.sql.types")
        ids = types.StructField(self._output, types.ArrayType(types.IntegerType(), False))
        fields = schema.fields
        places = self._places([field.name for field in fields])
        return types.StructType([ids if place is None else fields[place] for place in places])

    def __call__(self, batch: Any) -> Any:
        """A Table, RecordBatch or column with ids."""
        pa = import_pyarrow("tokenmill.arrow.Encode")
        if isinstance(batch, pa.Table | pa.RecordBatch):
            return self._table(pa, batch, self.type)
        return self._column_of(pa, columns.arrow_of(pa, batch), self.type)

    def map_in_arrow(self, batches: Iterable[Any]) -> Iterator[Any]:
        """RecordBatches with ids, for Spark's `mapInArrow`.

        Spark has neither unsigned numbers nor large lists, so these are `list<int32>`.
        """
        pa = import_pyarrow("tokenmill.arrow.Encode")
        for batch in batches:
            yield self._table(pa, batch, pa.list_(pa.int32()))

    def _table(self, pa: Any, table: Any, kind: Any) -> Any:
        place = columns.find(table.schema, self._column)
        ids = self._column_of(pa, table.column(place), kind)
        schema = self._schema(pa, table.schema, kind)
        places = self._places(table.schema.names)
        arrays = [ids if place is None else table.column(place) for place in places]
        return type(table).from_arrays(arrays, schema=schema)

    def _column_of(self, pa: Any, column: Any, kind: Any) -> Any:
        if isinstance(column, pa.ChunkedArray):
            chunks = [self._lists(pa, chunk, kind) for chunk in column.chunks]
            return pa.chunked_array(chunks, kind)
        return self._lists(pa, column, kind)

    def _lists(self, pa: Any, array: Any, kind: Any) -> Any:
        if pa.types.is_dictionary(array.type) and len(array.dictionary) <= len(array):
            # Each text once. A slice may come with a dictionary that is longer than itself.
            return self._lists(pa, array.dictionary, kind).take(array.indices)
        array = columns.texts(pa, array, self._column)
        view, spans, valid = columns.spans(pa, array)
        narrow = pa.types.is_uint16(kind.value_type)
        ids, ends = self.tokenizer._core.encode_documents(
            view, np.ascontiguousarray(spans), self._allowed, self._before, self._after, narrow,
            arguments.thread_count(self._threads),
        )  # fmt: skip
        return columns.lists(pa, kind, ids, np.asarray(ends), valid)

    def _places(self, names: Sequence[str]) -> list[int | None]:
        """The columns of the result: numbers of the input's, and None for the ids."""
        kept = names if self._keep is True else self._keep or ()
        missing = [name for name in kept if name not in names]
        if missing:
            raise InputError(
                f"keep names the column {missing[0]!r}, and the table has "
                f"{', '.join(map(repr, names)) or 'none'}"
            )
        places: list[int | None] = [i for i, name in enumerate(names) if name in kept]
        if self._output not in kept:
            return [*places, None]
        if self._output != self._column:
            raise InputError(
                f"the table has a column {self._output!r} already; give the ids another name with "
                "output=, or leave that column out with keep="
            )
        return [None if p is not None and names[p] == self._output else p for p in places]

    def __repr__(self) -> str:
        ids = "uint16" if self._narrow else "uint32"
        return f"<Encode {self._column!r} → {self._output!r}: {self.tokenizer.name}, {ids}>"


def _names(keep: Any) -> tuple[str, ...]:
    if isinstance(keep, str | bytes) or not isinstance(keep, Iterable):
        raise TypeError(f"keep must be True, False or names of columns, not {keep!r}")
    return tuple(keep)
