"""A page of the documents → the files that it takes as given, small, in the current folder."""

import gzip
import json
import lzma
import random
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from run_page import HOME

UDHR = Path(__file__).parents[1] / "data" / "udhr"
DISTINCT_WORDS = 24_000  # enough for a vocabulary of 50,000


def make(page: str) -> None:
    """Makes the files of a page; most pages take none."""
    MAKERS.get(page, lambda: None)()


def write_lines(path: str, texts: Iterable[str]) -> None:
    """Writes texts as JSON lines, compressed as the name says."""
    lines = (json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    data = "".join(lines).encode()
    compress: dict[str, Callable[[bytes], bytes]] = {
        ".xz": lzma.compress,
        ".gz": gzip.compress,
        ".zst": compress_zstd,
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(compress.get(Path(path).suffix, bytes)(data))


def compress_zstd(data: bytes) -> bytes:
    import zstandard  # some environments lack it

    return zstandard.ZstdCompressor().compress(data)


def paragraphs(count: int | None = None) -> list[str]:
    """Real documents: the paragraphs of a declaration in sixty languages."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(UDHR.iterdir()))
    return [line for text in texts for line in text.splitlines() if line][:count]


def words(seed: int) -> str:
    """A text of made-up words, all different: many merges in little text."""
    source = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < DISTINCT_WORDS:
        made["".join(source.choices("aeinorstlmd", k=9))] = None
    return "\n".join(made)


def readme() -> None:
    every = paragraphs()
    write_lines("data/part-1.jsonl.xz", every[::2])
    write_lines("data/part-2.jsonl.xz", every[1::2])
    Path("corpus.txt").write_bytes((UDHR / "eng.txt").read_bytes())


def corpus() -> None:
    write_lines("data/part-1.jsonl.zst", paragraphs(1000))


def grain(count: int) -> None:
    """Documents of one sentence, twelve times."""
    write_lines("corpus.jsonl", (f"Document {n} is about grain. " * 12 for n in range(count)))


def compare() -> None:
    write_lines("corpus/a.jsonl", paragraphs(1000))


def slow_runs() -> None:
    write_lines("data/a.jsonl", paragraphs(1000))


def train() -> None:
    Path("data").mkdir()
    Path("data/a.txt").write_text(words(3))
    write_lines("data/a.jsonl.zst", words(4).splitlines())


def train_large() -> None:
    for part in range(1, 3):
        write_lines(f"part-{part}/a.jsonl", words(part).splitlines())
    write_lines("data/a.jsonl.zst", words(3).splitlines())


def command_line() -> None:
    """The folders of shells that are set up for completion."""
    for folder in (".zfunc", ".config/fish/completions"):
        (Path(HOME) / folder).mkdir(parents=True)


def migrate_sentencepiece() -> None:
    """A text and a model."""
    import tokenmill

    Path("corpus.txt").write_bytes((UDHR / "eng.txt").read_bytes())
    tokenmill.train("corpus.txt", 400, trainer="sentencepiece").save("m.model")


def migrate_transformers() -> None:
    """A tokenizer in a file."""
    import tokenmill

    tokenmill.Tokenizer.load("gpt2").save("tokenizer.json")


def load() -> None:
    """A tokenizer in a file and in a folder."""
    import tokenmill

    gpt2 = tokenmill.Tokenizer.load("gpt2")
    gpt2.save("tokenizer.json")
    gpt2.save("model-folder/")


MAKERS: dict[str, Callable[[], None]] = {
    "README.md": readme,
    "docs/cli.md": command_line,
    "docs/compare.md": compare,
    "docs/corpus.md": corpus,
    "docs/split.md": corpus,
    "docs/load.md": load,
    "docs/migrate-sentencepiece.md": migrate_sentencepiece,
    "docs/migrate-transformers.md": migrate_transformers,
    "docs/pytorch.md": partial(grain, 200),
    "docs/pytorch-resume.md": partial(grain, 200),
    "docs/slow-runs.md": slow_runs,
    "docs/train.md": train,
    "docs/train-large.md": train_large,
    "docs/trainers.md": train,
    "docs/training-megatron.md": partial(grain, 2000),
    "docs/training-programs.md": partial(grain, 2000),
}
