"""Names → embedded vocabularies of OpenAI, and the models that use them.

`core/vocabulary/pack.py` made the packed files in this folder from the rank files that OpenAI
published (MIT licence). `Tokenizer.save` writes these rank files again, byte for byte.
"""

import os
import struct
from collections.abc import Mapping
from typing import NamedTuple

from tokenmill.native import _native

_END = "<|endoftext|>"
_END_OF_PROMPT = "<|endofprompt|>"


class Embedded(NamedTuple):
    """A published vocabulary: its packed file, its pre-tokenizer and its special tokens."""

    image: str
    scheme: str
    special_tokens: Mapping[str, int]

    def read_image(self) -> bytes:
        # The import of pathlib would take 3 ms.
        folder = os.path.dirname(__file__)  # noqa: PTH120
        with open(f"{folder}/{self.image}.tmv", "rb") as file:  # noqa: PTH123
            return file.read()

    def build_core(self) -> _native.Core:
        """Return the native tokenizer, as `formats.build` makes it of a specification."""
        names, ids = zip(*sorted(self.special_tokens.items()), strict=True)
        pack = struct.Struct(f"<{len(names)}I").pack
        bundle = _native.pack_bundle(
            "image",
            self.read_image(),
            self.scheme,
            names="".join(names).encode(),
            name_lengths=pack(*map(len, names)),
            name_ids=pack(*ids),
            name_flags=b"\x01" * len(names),
        )
        return _native.load(bundle, int.from_bytes(os.urandom(8), "little"))


def _fim(first: int) -> dict[str, int]:
    return {f"<|fim_{name}|>": first + i for i, name in enumerate(("prefix", "middle", "suffix"))}


def _harmony() -> dict[str, int]:
    named = {
        "<|startoftext|>": 199998,
        _END: 199999,
        "<|return|>": 200002,
        "<|constrain|>": 200003,
        "<|channel|>": 200005,
        "<|start|>": 200006,
        "<|end|>": 200007,
        "<|message|>": 200008,
        "<|call|>": 200012,
    }
    taken = set(named.values())
    reserved = {f"<|reserved_{i}|>": i for i in range(200000, 201088) if i not in taken}
    # Id 200018 has two names, here as in tiktoken; it decodes to the first in sorted order.
    tokens = {_END_OF_PROMPT: 200018, **named, **reserved}
    return dict(sorted(tokens.items(), key=lambda token: token[1]))


_R50K = Embedded("r50k_base", "r50k", {_END: 50256})

EMBEDDED: dict[str, Embedded] = {
    "gpt2": _R50K,
    "r50k_base": _R50K,
    "p50k_base": Embedded("p50k_base", "r50k", {_END: 50256}),
    "p50k_edit": Embedded("p50k_base", "r50k", {_END: 50256, **_fim(50281)}),
    "cl100k_base": Embedded(
        "cl100k_base", "cl100k", {_END: 100257, **_fim(100258), _END_OF_PROMPT: 100276}
    ),
    "o200k_base": Embedded("o200k_base", "o200k", {_END: 199999, _END_OF_PROMPT: 200018}),
    "o200k_harmony": Embedded("o200k_base", "o200k", _harmony()),
}


def _by_name(names: dict[str, str]) -> dict[str, str]:
    return {name: vocabulary for vocabulary, listed in names.items() for name in listed.split()}


# Models by the vocabulary they use, as tiktoken 0.14 maps them.
MODELS: dict[str, str] = _by_name({
    "o200k_base": "o1 o3 o4-mini gpt-5 gpt-4.1 gpt-4o",
    "cl100k_base": """
        gpt-4 gpt-3.5-turbo gpt-3.5 gpt-35-turbo davinci-002 babbage-002 text-embedding-ada-002
        text-embedding-3-small text-embedding-3-large""",
    "p50k_base": """
        text-davinci-003 text-davinci-002 code-davinci-002 code-davinci-001 code-cushman-002
        code-cushman-001 davinci-codex cushman-codex""",
    "p50k_edit": "text-davinci-edit-001 code-davinci-edit-001",
    "r50k_base": """
        text-davinci-001 text-curie-001 text-babbage-001 text-ada-001 davinci curie babbage ada
        text-similarity-davinci-001 text-similarity-curie-001 text-similarity-babbage-001
        text-similarity-ada-001 text-search-davinci-doc-001 text-search-curie-doc-001
        text-search-babbage-doc-001 text-search-ada-doc-001 code-search-babbage-code-001
        code-search-ada-code-001""",
    "gpt2": "gpt2 gpt-2",
})  # fmt: skip

# Prefixes of dated or fine-tuned models. The first prefix of a name decides.
MODEL_PREFIXES: dict[str, str] = _by_name({
    "o200k_base": """
        o1- o3- o4-mini- gpt-5 gpt-4.5- gpt-4.1- chatgpt-4o- gpt-4o- ft:gpt-4o""",
    "cl100k_base": """
        gpt-4- gpt-3.5-turbo- gpt-35-turbo- ft:gpt-4 ft:gpt-3.5-turbo ft:davinci-002
        ft:babbage-002""",
    "o200k_harmony": "gpt-oss-",
})  # fmt: skip


def find_embedded(name: str) -> str | None:
    """Return the embedded vocabulary of this name or OpenAI model, or None."""
    if name in EMBEDDED:
        return name
    if name in MODELS:
        return MODELS[name]
    if "/" in name or "\\" in name:
        return None
    return next((MODEL_PREFIXES[p] for p in MODEL_PREFIXES if name.startswith(p)), None)


# SHA-256 of published rank files → the pre-tokenizer and the special tokens, which they lack. The
# last two are those of Qwen 1 and Whisper, whose special tokens depend on the version.
_KNOWN: dict[str, Embedded] = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": EMBEDDED["r50k_base"],
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": EMBEDDED["p50k_base"],
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": EMBEDDED["cl100k_base"],
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": EMBEDDED["o200k_base"],
    "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186": Embedded(
        "", "qwen2", {_END: 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
    ),
    "b34b360dbb493e781e479794586d661700670d65564001f23024971d1f2fa126": Embedded("", "r50k", {}),
}


def find_known(data: bytes) -> Embedded | None:
    """Return the pre-tokenizer and the special tokens of a published rank file, or None."""
    import hashlib

    return _KNOWN.get(hashlib.sha256(data).hexdigest())
