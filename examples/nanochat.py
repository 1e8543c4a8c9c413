"""nanochat's tokenizer: rustbpe learns the merges, and tiktoken encodes. Two imports change."""

import pickle
from pathlib import Path

import tokenmill
import tokenmill.compat.rustbpe as rustbpe  # was: import rustbpe
import tokenmill.compat.tiktoken as tiktoken  # was: import tiktoken

SPLIT_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
SPECIAL_TOKENS = ["<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>"]
VOCAB_SIZE = 1024

texts = [path.read_text(encoding="utf-8") for path in Path(tokenmill.__file__).parent.glob("*.py")]
trainer = rustbpe.Tokenizer()
trainer.train_from_iterator(iter(texts), VOCAB_SIZE - len(SPECIAL_TOKENS), pattern=SPLIT_PATTERN)
ranks = dict(trainer.get_mergeable_ranks())
encoding = tiktoken.Encoding(
    name="nanochat",
    pat_str=trainer.get_pattern(),
    mergeable_ranks=ranks,
    special_tokens={name: len(ranks) + i for i, name in enumerate(SPECIAL_TOKENS)},
)
Path("tokenizer.pkl").write_bytes(pickle.dumps(encoding))
ids = [encoding.encode_single_token("<|bos|>"), *encoding.encode_ordinary("def encode(text):")]
print(encoding.n_vocab, "tokens;", ids, [encoding.decode([id]) for id in ids])
