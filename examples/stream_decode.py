"""Ids of a model, one by one → text that never shows half a character."""

from tokenmill import Tokenizer

tokenizer = Tokenizer.load("o200k_base")
decoder = tokenizer.stream_decoder()
for id in tokenizer.encode("Mehl, мука, 面粉, 🌾"):
    print(decoder.push(id), end="|", flush=True)
print(decoder.finish())
