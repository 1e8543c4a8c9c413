"""A chat whose ids are kept up to date: each turn feeds a model only what is new."""

from tokenmill import Tokenizer

session = Tokenizer.load("o200k_harmony").session(allowed_special=True)
for turn in ("<|start|>user<|message|>How is flour", " made?<|end|>", "<|start|>assistant"):
    kept = session.append(turn)
    print(f"{kept} ids stay, {len(session) - kept} are new: {session[kept:]}")
