"""Tables of texts → tables of ids or of counts: callables for engines that pass Arrow around.

`Encode` and `CountPretokens` fit `map_batches` of Ray Data, `mapInArrow` of Spark and the batch
functions of Daft. They are pickled small, know nothing of an engine, and import none unless its own
types are handed to them. docs/engines.md shows each of them.
"""

from tokenmill.arrow.count import CountPretokens
from tokenmill.arrow.encode import Encode

__all__ = ["CountPretokens", "Encode"]
