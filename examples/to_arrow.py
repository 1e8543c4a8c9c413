"""Texts → an Arrow column of token lists, without copying the ids (needs pyarrow)."""

import pyarrow as pa

from tokenmill import Tokenizer

texts = ["one text", "another text", ""]
ragged = Tokenizer.load("cl100k_base").encode_ragged(texts)
table = pa.table({"text": texts, "ids": pa.array(ragged)})
print(table.schema.field("ids").type, table["ids"].to_pylist())
