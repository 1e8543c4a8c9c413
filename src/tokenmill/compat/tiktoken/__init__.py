"""tiktoken's interface: `import tokenmill.compat.tiktoken as tiktoken`, and all else stays.

Same names, arguments, results and exceptions as tiktoken 0.14. Its vocabularies come with this
package, so nothing is downloaded.
"""

from tokenmill.compat.tiktoken import core, load, model, registry
from tokenmill.compat.tiktoken.core import Encoding
from tokenmill.compat.tiktoken.model import encoding_for_model, encoding_name_for_model
from tokenmill.compat.tiktoken.registry import get_encoding, list_encoding_names

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

# The version whose interface this is: programs ask for it.
__version__ = "0.14.0"
