"""tiktoken's interface: `import tokenmill.compat.tiktoken as tiktoken`.

Names, arguments, results and exceptions are those of tiktoken 0.14. The package contains its
vocabularies.
"""

import sys

from tokenmill.compat.tiktoken import core, load, registry
from tokenmill.compat.tiktoken import registry as model
from tokenmill.compat.tiktoken.core import Encoding
from tokenmill.compat.tiktoken.registry import (
    encoding_for_model,
    encoding_name_for_model,
    get_encoding,
    list_encoding_names,
)

__all__ = [
    "Encoding",
    "core",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_encoding",
    "list_encoding_names",
    "load",
    "model",
    "registry",
]

# The version of the interface, which programs read.
__version__ = "0.14.0"
# Programs import tiktoken.model; `registry` has its names.
sys.modules[f"{__name__}.model"] = registry
