"""Vocabulary name → the files that each system loads it from.

tokenmill writes the rank file of its embedded vocabulary into `bench/.cache/vocabularies/`. The
`tokenizer.json` of other systems is derived from the ranks. Systems download no files.

Invariant: `tokenizer.json` has no added tokens, so every system treats special tokens as text.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import lzma
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corpora import CACHE
from documents import data_folder

FOLDER = CACHE / "vocabularies"

# Two spellings of one pattern: `fast` is tiktoken's, with possessive quantifiers; `plain` is the
# published one without them. Oniguruma reads `{1,3}+` as a repeated group, so it needs `plain`.
GPT2_FAST = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
GPT2_PLAIN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K_FAST = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
CL100K_PLAIN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K_BOTH = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_SUFFIX}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SUFFIX}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2 = ("gpt2", GPT2_FAST, GPT2_PLAIN)
CL100K = ("cl100k", CL100K_FAST, CL100K_PLAIN)
O200K = ("o200k", O200K_BOTH, O200K_BOTH)

R50K_SHA256 = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
P50K_SHA256 = "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"
CL100K_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
O200K_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


@dataclass(frozen=True)
class Vocabulary:
    name: str
    ranks_name: str  # o200k_harmony has the rank file of o200k_base
    pre_tokenizer: str  # gpt2, cl100k or o200k
    pattern_fast: str
    pattern_plain: str
    end_of_text: int
    ranks_sha256: str  # of the published file

    @property
    def ranks_path(self) -> Path:
        return FOLDER / f"{self.ranks_name}.tiktoken"

    @property
    def json_path(self) -> Path:
        return FOLDER / f"{self.ranks_name}.tokenizer.json"


VOCABULARIES = {
    v.name: v
    for v in (
        Vocabulary("r50k_base", "r50k_base", *GPT2, 50256, R50K_SHA256),
        Vocabulary("p50k_base", "p50k_base", *GPT2, 50256, P50K_SHA256),
        Vocabulary("cl100k_base", "cl100k_base", *CL100K, 100257, CL100K_SHA256),
        Vocabulary("o200k_base", "o200k_base", *O200K, 199999, O200K_SHA256),
        Vocabulary("o200k_harmony", "o200k_base", *O200K, 199999, O200K_SHA256),
    )
}
ALIASES = {"gpt2": "r50k_base"}


def vocabulary(name: str) -> Vocabulary:
    name = ALIASES.get(name, name)
    if name not in VOCABULARIES:
        raise SystemExit(f"unknown vocabulary {name!r}; expected {', '.join(VOCABULARIES)}")
    return VOCABULARIES[name]


def prepare(name: str) -> None:
    """Write the files of a vocabulary, each once."""
    v = vocabulary(name)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not v.ranks_path.exists():
        _write_ranks(v)
    if hashlib.sha256(v.ranks_path.read_bytes()).hexdigest() != v.ranks_sha256:
        v.ranks_path.unlink()
        raise SystemExit(f"the rank file of {v.name} differs from the published one; removed")
    if not v.json_path.exists():
        partial = v.json_path.with_suffix(".part")
        partial.write_text(json.dumps(tokenizer_json(v), ensure_ascii=False), "utf-8")
        partial.rename(v.json_path)


def _write_ranks(v: Vocabulary) -> None:
    # Runs in a new process, since the sweep never imports the measured systems.
    code = "import sys, tokenmill; tokenmill.Tokenizer.load(sys.argv[1]).save(sys.argv[2])"
    partial = v.ranks_path.with_suffix(".part.tiktoken")
    command = [sys.executable, "-c", code, v.ranks_name, str(partial)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode == 0:
        partial.rename(v.ranks_path)
        return
    packed = data_folder() / "vocab" / f"{v.ranks_name}.tiktoken.xz"
    if not packed.exists():
        raise SystemExit(
            f"tokenmill cannot write the rank file of {v.name}, and {packed.name} was not "
            f"found; install tokenmill\n{made.stderr}"
        )
    v.ranks_path.write_bytes(lzma.decompress(packed.read_bytes()))


def read_ranks(path: Path) -> dict[bytes, int]:
    """Return the rank of each token, in the order of the file."""
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def tokenizer_json(v: Vocabulary) -> dict[str, object]:
    """Return the `tokenizer.json` that produces the same ids."""
    ranks = read_ranks(v.ranks_path)
    letters = _byte_letters()
    spell = {token: "".join(letters[b] for b in token) for token in ranks}
    vocab = {spell[token]: rank for token, rank in ranks.items()}
    if v.end_of_text < len(ranks):
        vocab["<|endoftext|>"] = v.end_of_text  # p50k_base: some systems reject ids with a gap
    merges = [[spell[left], spell[right]] for left, right in _merges(ranks)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    split = {
        "type": "Split",
        "pattern": {"Regex": v.pattern_plain},
        "behavior": "Isolated",
        "invert": False,
    }
    pre_tokenizer = (
        byte_level | {"use_regex": True}
        if v.pre_tokenizer == "gpt2"
        else {"type": "Sequence", "pretokenizers": [split, byte_level | {"use_regex": False}]}
    )
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": byte_level | {"use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocab,
            "merges": merges,
        },
    }


def _byte_letters() -> list[str]:
    # GPT-2's alphabet: printable Latin-1 bytes map to themselves, the others to U+0100 and up.
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(0x100, 0x200))
    return [chr(b if b in shown else next(hidden)) for b in range(256)]


def _merges(ranks: dict[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the last merge of each token, in rank order."""
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            pairs = [ranks.get(a + b, rank) for a, b in itertools.pairwise(parts)]
            lowest = min(pairs)
            if lowest >= rank:
                break
            at = pairs.index(lowest)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            yield parts[0], parts[1]
