"""The interfaces of tiktoken, tokenizers and transformers, on tokenmill's core."""
