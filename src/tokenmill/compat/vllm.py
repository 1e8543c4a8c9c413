"""A plugin of vLLM: `--tokenizer-mode tokenmill` → its tokenizers, patched.

vLLM finds `register` by the entry point of the package. Nothing else imports this module.
"""

from __future__ import annotations

from typing import Any

from tokenmill.compat.transformers import patch
from tokenmill.errors import import_package


def register() -> None:
    """Add the tokenizer mode "tokenmill" to vLLM 0.23 or later."""
    user = "the tokenizer mode of vLLM"
    tokenizers = import_package("vllm.tokenizers.registry", user)
    renderers = import_package("vllm.renderers.registry", user)
    tokenizers.TokenizerRegistry.register("tokenmill", __name__, "PatchedTokenizer")
    renderers.RENDERER_REGISTRY.register("tokenmill", "vllm.renderers.hf", "HfRenderer")


class PatchedTokenizer:
    """The tokenizer of the mode "hf", with the patch of transformers."""

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the tokenizer that vLLM makes from a folder or name."""
        hf = import_package("vllm.tokenizers.hf", "the tokenizer mode of vLLM")
        patch()
        return hf.CachedHfTokenizer.from_pretrained(*args, **kwargs)
