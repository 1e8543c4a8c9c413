"""Files ↔ tokenizers, one module per format.

`detect` selects the reader of a file, and `save` the writer. They are imported on first use, so
that embedded vocabularies load without them.
"""
