"""Spark maps the callables over iterators of record batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from conftest import check_ids
from pyspark.sql import SparkSession

import tokenmill
from tokenmill.arrow import Encode


@pytest.fixture(scope="module", autouse=True)
def spark(corpus: pa.Table) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]")
    # It starts faster than it would run for an hour.
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    session = builder.getOrCreate()
    yield session
    session.stop()


def test_the_guide_gives_ids_and_counts(run_guide):
    run_guide("Spark")


def test_a_tokenizer_of_ones_own_travels(corpus, spark):
    tokenizer = tokenmill.train_from_iterator(corpus["text"], vocab_size=400)
    frame = spark.createDataFrame(corpus).repartition(3)
    encode = Encode(tokenizer)
    frame = frame.mapInArrow(encode.map_in_arrow, encode.schema(frame.schema))
    result = frame.toArrow()
    assert result.schema.field("tokens").type.value_type == pa.int32()
    check_ids(corpus, result, tokenizer)
