"""OpenAI's models → encodings, as tiktoken.model has them."""

from tokenmill.compat.tiktoken.core import Encoding
from tokenmill.compat.tiktoken.registry import get_encoding
from tokenmill.vocabularies import MODEL_PREFIXES, MODELS

MODEL_TO_ENCODING: dict[str, str] = dict(MODELS)
MODEL_PREFIX_TO_ENCODING: dict[str, str] = dict(MODEL_PREFIXES)


def encoding_name_for_model(model_name: str) -> str:
    """The name of the encoding that a model uses; KeyError for one that is not known."""
    if model_name in MODEL_TO_ENCODING:
        return MODEL_TO_ENCODING[model_name]
    for prefix, name in MODEL_PREFIX_TO_ENCODING.items():
        if model_name.startswith(prefix):
            return name
    raise KeyError(
        f"Could not automatically map {model_name} to a tokeniser. "
        "Please use `tiktoken.get_encoding` to explicitly get the tokeniser you expect."
    )


def encoding_for_model(model_name: str) -> Encoding:
    """The encoding that a model uses; KeyError for one that is not known."""
    return get_encoding(encoding_name_for_model(model_name))
