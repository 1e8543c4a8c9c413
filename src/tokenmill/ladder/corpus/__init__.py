"""Files → one file of ids, four times: the architectures that people write, in their order.

Each takes JSON lines with a field "text", a tokenizer and an empty folder, and gives the files in
it that hold the ids of all documents end to end, each with the end of text behind it. All four
write the same bytes.
"""
