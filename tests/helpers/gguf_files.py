"""GGUF files, written by the gguf package."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import sentencepiece


def write(
    path: Path,
    model: str | None = "gpt2",
    *,
    name: str = "A model",
    tensor: bool = False,
    **values,
) -> Path:
    """A file with `values` under the names of the writer's functions, such as `add_token_list`."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_array("general.tags", ["a", "b"])
    if model is not None:
        writer.add_tokenizer_model(model)
    for function, value in values.items():
        getattr(writer, function)(value)
    if tensor:
        writer.add_tensor("x", np.zeros(7, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    if tensor:
        writer.write_tensors_to_file()
    writer.close()
    return path


def from_pieces(path: Path, data: bytes, **values) -> Path:
    """A file of a SentencePiece model, as llama.cpp's converter writes it."""
    pieces = sentencepiece.SentencePieceProcessor(model_proto=data)
    ids = range(pieces.get_piece_size())
    kinds = [
        (gguf.TokenType.UNKNOWN, pieces.is_unknown),
        (gguf.TokenType.CONTROL, pieces.is_control),
        (gguf.TokenType.BYTE, pieces.is_byte),
    ]
    types = [next((type_ for type_, asks in kinds if asks(id_)), 1) for id_ in ids]
    return write(
        path,
        "llama",
        add_token_list=[pieces.id_to_piece(id_) for id_ in ids],
        add_token_scores=[pieces.get_score(id_) for id_ in ids],
        add_token_types=types,
        **values,
    )


def from_json(path: Path, document: dict, **values) -> Path:
    """A file of a tokenizer.json, as llama.cpp's converter writes it."""
    texts = {id_: text for text, id_ in document["model"]["vocab"].items()}
    types = {}
    for one in document["added_tokens"]:
        texts[one["id"]] = one["content"]
        types[one["id"]] = 3 if one["special"] else 4
    ids = range(max(texts) + 1)
    merges = document["model"]["merges"]
    return write(
        path,
        add_token_list=[texts.get(id_, f"[PAD{id_}]") for id_ in ids],
        add_token_types=[types.get(id_, 1 if id_ in texts else 5) for id_ in ids],
        add_token_merges=[one if isinstance(one, str) else " ".join(one) for one in merges],
        **values,
    )
