"""Files → one file of ids in five steps, in the order in which such programs usually grow.

Each step reads JSON lines with a field "text" and writes files with the ids of all documents, each
followed by the EOS token. All steps write the same bytes. The first four also run with the library
tokenizers as the encoder, which shows the gain of each architecture with a slow encoder.
"""
