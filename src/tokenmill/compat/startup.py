"""TOKENMILL_PATCH=transformers in the environment → a program whose transformers are patched.

Python reads `tokenmill.pth` at its start, and calls `install` if the variable is set. The patch is
made when the program imports the fast tokenizers. Processes that a server starts inherit the
variable.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

VARIABLE = "TOKENMILL_PATCH"
# The module of fast tokenizers: in transformers 5, and before.
_MODULES = ("transformers.tokenization_utils_tokenizers", "transformers.tokenization_utils_fast")


def install() -> None:
    """Patch transformers when it is imported. OptionError for another value of the variable."""
    value = os.environ.get(VARIABLE)
    if value != "transformers":
        from tokenmill.errors import OptionError

        raise OptionError(f"{VARIABLE} must be 'transformers', not {value!r}")
    sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds the module of fast tokenizers as the other finders do, and patches it once."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in _MODULES:
            return None
        others = (finder for finder in list(sys.meta_path) if finder is not self)
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            sys.meta_path.remove(self)
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                from tokenmill.compat.transformers import patch

                patch()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
