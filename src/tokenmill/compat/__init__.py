"""The interfaces of tiktoken, tokenizers, transformers and rustbpe, on tokenmill's core."""
