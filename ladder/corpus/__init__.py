"""Files → one file of ids in four steps, in the order in which such programs usually grow.

Each step reads JSON lines with a field "text" and writes files with the ids of all documents, each
followed by the EOS token. All four write the same bytes.
"""
