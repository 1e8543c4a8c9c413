"""Tables of texts → tables of ids or of counts: callables for engines that use Arrow.

`Encode` and `CountPretokens` fit `map_batches` of Ray Data, `mapInArrow` of Spark and the batch
functions of Daft. Their pickles are small. They import an engine only to use its types.
docs/engines.md has an example for each engine.
"""

from tokenmill.arrow.count import CountPretokens
from tokenmill.arrow.encode import Encode

__all__ = ["CountPretokens", "Encode"]
