"""Documents of a datatrove pipeline → .ds files, as DocumentTokenizer's (needs datatrove)."""

from functools import cached_property

import numpy as np
from datatrove.data import Document
from datatrove.pipeline.tokens.tokenizer import DocumentTokenizer, TokenizedFile
from datatrove.utils.batching import batched

from tokenmill import Tokenizer


class TokenmillTokenizer(DocumentTokenizer):
    @cached_property
    def tokenizer(self):
        return Tokenizer.load(self.tokenizer_name_or_path)

    @cached_property
    def token_size(self):
        return 4 if self.tokenizer.vocab_size > 1 << 16 else 2

    def write_unshuffled(self, data, filename):
        shuffles = self.shuffle_documents or self.shuffle_chunk_size
        folder = (shuffles and self.local_working_dir) or self.output_folder
        name, kind = self.tokenizer_name_or_path, f"<u{self.token_size}"
        file = TokenizedFile(folder, filename, True, False, None, name, True, self.token_size)
        end = [self.tokenizer.special_tokens[self.eos_token]] if self.eos_token else []
        for batch in batched(data, self.batch_size):
            with self.track_time(unit="batch"):
                for ids in self.tokenizer.encode_ragged([d.text for d in batch], threads=1):
                    file.write_bytes(np.append(ids, end).astype(kind).tobytes())
                    self.stat_update("tokens", value=len(ids) + len(end))
        file.close()
        return file


if __name__ == "__main__":  # LocalPipelineExecutor does this for many files
    step = TokenmillTokenizer("shards", "gpt2", eos_token="<|endoftext|>", shuffle_documents=False)
    step.run(Document(text=text, id=text) for text in ("grain in", "tokens out"))
    print(np.fromfile("shards/00000_unshuffled.ds", "<u2"))
