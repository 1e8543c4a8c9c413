"""The number of tokens of a file in three vocabularies.   usage: count_tokens.py [FILE]"""

import sys
from pathlib import Path

from tokenmill import Tokenizer

text = Path(sys.argv[1] if len(sys.argv) > 1 else __file__).read_bytes()
for name in ("gpt2", "cl100k_base", "o200k_base"):
    tokens = Tokenizer.load(name).count(text)
    print(f"{name:12} {tokens:>8,} tokens  {len(text) / max(tokens, 1):.2f} bytes per token")
