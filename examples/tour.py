"""A tour of tokenmill: encode, compare, train, tokenize a corpus. Run it with `make demo`."""

import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

import tokenmill
from tokenmill.tokenizing.verify import verify

TEXTS = {
    "English": "A mill takes grain and gives flour; a tokenizer takes text and gives numbers.",
    "Python": "def mill(grain: str) -> list[int]:\n    return tokenizer.encode(grain)  # 1234567",
    "Chinese": "磨坊把谷物变成面粉，分词器把文字变成数字。",
    "emoji": "🌾➡️🧮 👩‍🌾",
}
STYLES = [f"black on {colour}" for colour in ("#a6d8ff", "#ffd8a6", "#b9e8b0", "#e6c6f5")]
SOURCE = Path(tokenmill.__file__).parent
DOCUMENTS = [path.read_bytes() for path in sorted(SOURCE.rglob("*.py"))]

console = Console(highlight=False)


def main() -> None:
    tokenizer = show_tokens()
    show_vocabularies()
    show_speed(tokenizer)
    trained = show_training()
    show_corpus(trained)
    section("more")
    console.print("tokenmill --help · tokenmill bench o200k_base FILE · docs/ · examples/")


def section(title: str) -> None:
    console.print()
    console.print(Rule(title, style="dim"))


def show_tokens() -> tokenmill.Tokenizer:
    section("text → tokens → ids")
    started = time.perf_counter()
    tokenizer = tokenmill.Tokenizer.load("o200k_base")
    took = time.perf_counter() - started
    for text in TEXTS.values():
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        console.print(coloured(tokenizer, ids))
        console.print(" ".join(map(str, ids)), style="dim")
    console.print(f"\no200k_base: {tokenizer.vocab_size:,} tokens, loaded in {took * 1e3:.0f} ms")
    return tokenizer


def coloured(tokenizer: tokenmill.Tokenizer, ids: list[int]) -> Text:
    """Tokens in alternating colours; without colours, a bar ends each token."""
    line = Text()
    for index, id in enumerate(ids):
        token = tokenizer.id_to_token(id).decode(errors="replace")
        token = token.replace(" ", "·").replace("\n", "↵")
        line.append(token, STYLES[index % len(STYLES)])
        if console.color_system is None:
            line.append("│")
    return line


def show_vocabularies() -> None:
    section("the same texts in four vocabularies")
    table = Table(box=None, pad_edge=False)
    table.add_column("tokens")
    for name in TEXTS:
        table.add_column(name, justify="right")
    for name in ("gpt2", "p50k_base", "cl100k_base", "o200k_base"):
        tokenizer = tokenmill.Tokenizer.load(name)
        table.add_row(name, *(str(tokenizer.count(text)) for text in TEXTS.values()))
    console.print(table)


def show_speed(tokenizer: tokenmill.Tokenizer) -> None:
    section("speed")
    size = sum(map(len, DOCUMENTS))
    started = time.perf_counter()
    tokens = sum(map(len, tokenizer.encode_ragged(DOCUMENTS)))
    took = time.perf_counter() - started
    rate = f"{size / took / 1e6:,.0f} MB/s, {tokens / took / 1e6:,.1f} million tokens/s"
    console.print(f"{len(DOCUMENTS)} files of this package in {took * 1e3:.0f} ms: {rate}")


def show_training() -> tokenmill.Tokenizer:
    section("a vocabulary of your own")
    started = time.perf_counter()
    tokenizer = tokenmill.train_from_iterator(DOCUMENTS, 1500, special_tokens=["<|endoftext|>"])
    took = time.perf_counter() - started
    console.print(f"1,500 tokens learned from this package in {took * 1e3:.0f} ms:")
    console.print(coloured(tokenizer, tokenizer.encode("tokenizer.encode_batch(documents)")))
    return tokenizer


def show_corpus(tokenizer: tokenmill.Tokenizer) -> None:
    section("a corpus as shards for training")
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "shards"
        started = time.perf_counter()
        result = tokenmill.tokenize(str(SOURCE / "**" / "*.py"), output, tokenizer)
        took = time.perf_counter() - started
        figures = f"{result.documents} documents, {result.tokens:,} tokens"
        console.print(f"{figures} in {took * 1e3:.0f} ms")
        verdict = "equal" if verify(output, sample=1.0).is_good else "WRONG"
        console.print(f"decoded and compared with their sources: {verdict}")
        first = tokenmill.shards.open(output)[0]
        console.print(f"first document: {len(first):,} ids, {first[:6].tolist()} …")


if __name__ == "__main__":
    main()
