"""The end of a conversation that fits a model's context, cut on a character boundary."""

from tokenmill import Tokenizer

CONTEXT = 16

tokenizer = Tokenizer.load("gpt-4o")
conversation = "You: How is flour made?\nMiller: Grain goes in at the top, and the stones turn."
kept = tokenizer.truncate(conversation, CONTEXT, side="left")
print(
    f"{tokenizer.count(conversation)} tokens; the last {tokenizer.count(kept)} are kept: {kept!r}"
)
