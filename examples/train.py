"""Texts → a trained tokenizer, in a file that Hugging Face's libraries load."""

from pathlib import Path

import tokenmill

texts = [path.read_text(encoding="utf-8") for path in Path(tokenmill.__file__).parent.glob("*.py")]
tokenizer = tokenmill.train_from_iterator(
    texts, 1_000, pattern="gpt2", special_tokens=["<|endoftext|>"]
)
tokenizer.save("tokenizer.json")
ids = tokenizer.encode("tokenizer.train(texts)<|endoftext|>", allowed_special=True)
print(tokenizer, [tokenizer.decode([id]) for id in ids])
