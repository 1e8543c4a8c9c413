"""Ray Data maps the callables over batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
import ray
import ray.data
from conftest import check_ids

import tokenmill
from tokenmill.arrow import Encode


@pytest.fixture(scope="module", autouse=True)
def cluster(corpus: pa.Table) -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.default_hash_shuffle_parallelism = 2
    context.enable_progress_bars = False
    yield
    ray.shutdown()


def table_of(dataset: ray.data.Dataset) -> pa.Table:
    return pa.concat_tables(ray.get(dataset.to_arrow_refs()))


def test_the_guide_gives_ids_and_counts(run_guide):
    run_guide("Ray Data")


def test_a_tokenizer_of_ones_own_travels_or_is_loaded_by_actors(corpus, tmp_path):
    tokenizer = tokenmill.train_from_iterator(corpus["text"], vocab_size=400)
    dataset = ray.data.from_arrow(corpus).repartition(4)
    # An empty block comes without columns of its own making.
    dataset = dataset.filter(lambda row: row["id"] >= 0)
    sent = dataset.map_batches(Encode(tokenizer), batch_format="pyarrow", batch_size=64)
    result = table_of(sent)
    assert result.schema.field("tokens").type == pa.large_list(pa.uint16())
    check_ids(corpus, result, tokenizer)
    path = str(tmp_path / "mine.tokenmill")
    tokenizer.save(path)
    loaded = dataset.map_batches(
        Encode, fn_constructor_args=(path,), concurrency=1, batch_format="pyarrow"
    )
    check_ids(corpus, table_of(loaded), tokenizer)
