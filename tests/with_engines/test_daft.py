"""Daft runs the callables in its batch functions."""

from __future__ import annotations

import daft
import pyarrow as pa
from conftest import check_ids
from daft import DataType, col

import tokenmill
from tokenmill.arrow import Encode


def test_the_guide_gives_ids_and_counts(run_guide):
    run_guide("Daft")


def test_processes_and_a_tokenizer_of_ones_own(corpus):
    tokenizer = tokenmill.train_from_iterator(corpus["text"], vocab_size=400)
    encode = Encode(tokenizer)
    kind = DataType.from_arrow_type(encode.type)
    tokenize = daft.func.batch(return_dtype=kind, use_process=True, batch_size=50)(encode)
    frame = daft.from_arrow(corpus).with_column("tokens", tokenize(col("text")))
    result = frame.to_arrow()
    assert result.schema.field("tokens").type == pa.large_list(pa.uint16())
    check_ids(corpus, result, tokenizer)
