"""Five libraries, each used in small trials → the comparison table of README.md.

    comparison.py            compare the table with README.md, and fail if a cell differs
    comparison.py --write    write the table into README.md

A cell is the result of a trial with the version that requirements.txt pins. A trial trains a small
model, reads a file, encodes a text, or calls an interface. A feature that no call can show to be
absent is looked for in the public names of the library. The wheels are those that pip finds for
each platform. Trials for included vocabularies run without a network and without downloaded files.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import importlib
import inspect
import io
import itertools
import json
import os
import pkgutil
import re
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

# isort: split
import machine
from markdown import table, write_block

sys.path.insert(0, str(machine.ROOT / "core"))
LIBRARIES = {
    "tokenmill": "tokenmill",
    "tiktoken": "tiktoken",
    "tokenizers": "tokenizers",
    "gigatoken": "gigatoken",
    "SentencePiece": "sentencepiece",
}
NONE = "–"
TEXT = "hello world, hello words\nthe world of words is wide, and the text is short\n" * 200
PROBE = "hello wide world"
MODELS = {
    "BPE": ("BPE", "bpe"),
    "Unigram": ("Unigram", "unigram"),
    "WordPiece": ("WordPiece", None),
    "WordLevel": ("WordLevel", None),
    "word": (None, "word"),
    "char": (None, "char"),
}
# The words of a name that would show a feature, in lower case.
WORDS = {
    "ids of a growing text": {"session", "append", "incremental", "edit"},
    "files to token shards": {"shard", "shards", "megatron", "memmap"},
    "clusters": {"ray", "slurm", "spark", "cluster", "distributed"},
    "other interfaces": {"tiktoken", "hf", "transformers", "sentencepiece", "tokenizers"},
}
# These names contain such a word for another reason.
UNRELATED = {"NormalizedString.append"}
PLATFORMS = {
    "Linux": ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64"),
    "musl": ("musllinux_1_2_x86_64", "musllinux_1_2_aarch64"),
    "macOS": ("macosx_15_0_x86_64", "macosx_15_0_arm64"),
    "Windows": ("win_amd64",),
    "Windows ARM": ("win_arm64",),
}
Cells = dict[str, str]
Trial = Callable[[], Any]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--write", action="store_true", help="write the table into README.md")
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as scratch:
        files = write_files(Path(scratch))
        rows = {
            "models": models(files),
            "training": training(files),
            "tie-breaking rules": trainer_rules(files),
            "BPE files read": files_read(files),
            "vocabularies included": included(),
            "character offsets": offsets(files),
            "ids of a growing text": growing_text(files),
            "files to token shards": token_shards(files),
            "clusters": by_names("clusters", tokenmill="Ray, Slurm"),
            "other interfaces": interfaces(),
            "wheels: Linux, musl, macOS, Windows": wheels(),
        }
    heads = [f"{name} {release(module)}" for name, module in LIBRARIES.items()]
    lines = [[label, *(cells[name] for name in LIBRARIES)] for label, cells in rows.items()]
    found = table([["", *heads], *lines], rule="---")
    readme = machine.ROOT / "README.md"
    print(found)
    if chosen.write:
        write_block(readme, "comparison", found)
        return 0
    shown = readme.read_text("utf-8").splitlines()
    missing = [line for line in found.splitlines() if line not in shown]
    for line in missing:
        print(f"README.md lacks this row: {line}", file=sys.stderr)
    return 1 if missing else 0


def release(module: str) -> str:
    """Return the version. tokenmill is imported from `src` and has no metadata."""
    return str(
        importlib.import_module(module).__version__ if module == "tokenmill" else version(module)
    )


def works(trial: Trial) -> bool:
    """Tell whether a trial returns a result that is not empty. Its output is discarded."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            result = trial()
        return result is not None and len(result) > 0
    except (Exception, SystemExit):
        return False
    except BaseException as error:  # a panic of Rust
        if type(error).__name__ != "PanicException":
            raise
        return False


def listed(trials: dict[str, Trial]) -> str:
    """Return the labels of the trials that work."""
    return ", ".join(label for label, trial in trials.items() if works(trial)) or NONE


# ── Files that the libraries read


def write_files(folder: Path) -> dict[str, Path]:
    """Train one vocabulary, and write it in every format."""
    import gguf
    import sentencepiece
    import tokenizers

    import tokenmill

    corpus = folder / "corpus.txt"
    corpus.write_text(TEXT, "utf-8")
    trained = tokenmill.train(str(corpus), vocab_size=300)
    paths = {"corpus": corpus, "tokenizer.json": folder / "tokenizer.json"}
    trained.save(paths["tokenizer.json"])
    paths["ranks"] = folder / "ranks.tiktoken"
    trained.save(paths["ranks"])
    document = json.loads(paths["tokenizer.json"].read_text("utf-8"))
    paths["`vocab.json`"] = folder / "vocab.json"
    real = tokenizers.Tokenizer.from_file(str(paths["tokenizer.json"]))
    real.model.save(str(folder))
    paths["`tekken.json`"] = folder / "tekken.json"
    paths["`tekken.json`"].write_text(json.dumps(tekken(paths["ranks"])), "utf-8")
    paths["GGUF"] = folder / "model.gguf"
    writer = gguf.GGUFWriter(paths["GGUF"], "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    tokens = sorted(document["model"]["vocab"], key=document["model"]["vocab"].get)
    writer.add_token_list(tokens)
    writer.add_token_types([1] * len(tokens))
    merges = document["model"]["merges"]
    writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in merges])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    for kind in ("bpe", "unigram", "word", "char"):
        prefix = folder / f"spm_{kind}"
        with contextlib.suppress(RuntimeError):
            sentencepiece.SentencePieceTrainer.train(
                input=str(corpus),
                model_prefix=str(prefix),
                vocab_size=320,
                model_type=kind,
                byte_fallback=kind in ("bpe", "unigram"),
                hard_vocab_limit=False,
                minloglevel=2,
            )
        paths[f"{kind}.model"] = prefix.with_suffix(".model")
    for kind in ("Unigram", "WordPiece", "WordLevel"):
        model = getattr(tokenizers.models, kind)
        trainer = getattr(tokenizers.trainers, f"{kind}Trainer")
        unknown = {} if kind == "Unigram" else {"unk_token": "[UNK]"}
        learned = tokenizers.Tokenizer(model(**unknown))
        learned.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        options = {"vocab_size": 60, "show_progress": False, "special_tokens": ["[UNK]"]}
        learned.train_from_iterator([TEXT], trainer(**options))
        paths[f"{kind}.json"] = folder / f"{kind}.json"
        learned.save(str(paths[f"{kind}.json"]))
    return paths


def tekken(ranks: Path) -> dict[str, Any]:
    from tokenmill.patterns.schemes import PATTERNS

    pairs = [line.split() for line in ranks.read_text("ascii").splitlines()]
    encoded = [text for text, _ in sorted(pairs, key=lambda pair: int(pair[1]))]
    learned = [text for text in encoded if len(base64.b64decode(text)) > 1]
    single = [base64.b64encode(bytes([value])).decode() for value in range(256)]
    tokens = [*single, *learned]
    special = [{"rank": 0, "token_str": "<unk>", "is_control": True}]
    return {
        "config": {
            "pattern": PATTERNS["tekken"][0],
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": len(tokens) + len(special),
            "default_num_special_tokens": len(special),
            "version": "v3",
        },
        "vocab": [
            {"rank": rank, "token_bytes": text, "token_str": None}
            for rank, text in enumerate(tokens)
        ],
        "special_tokens": special,
    }


def tiktoken_encoding(ranks: dict[bytes, int]) -> Any:
    import tiktoken

    pattern = r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+"
    return tiktoken.Encoding("trial", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def load_ranks(path: Path) -> Any:
    from tiktoken.load import load_tiktoken_bpe

    return tiktoken_encoding(load_tiktoken_bpe(str(path)))


def gigatoken_load(path: Path) -> Any:
    import gigatoken

    if path.suffix == ".model":
        return gigatoken.Tokenizer.from_sentencepiece(str(path))
    if path.suffix == ".tiktoken":
        return gigatoken.Tokenizer.from_tiktoken(str(path), "gpt2")
    return gigatoken.Tokenizer(str(path))


def sentencepiece_load(path: Path) -> Any:
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def tokenizers_load(path: Path) -> Any:
    import tokenizers

    if path.name == "vocab.json":
        merges = str(path.with_name("merges.txt"))
        return tokenizers.ByteLevelBPETokenizer.from_file(str(path), merges)
    if path.suffix == ".model":
        return tokenizers.SentencePieceUnigramTokenizer.from_spm(str(path))
    return tokenizers.Tokenizer.from_file(str(path))


def tiktoken_load(path: Path) -> Any:
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks

    if path.name == "vocab.json":
        merges = str(path.with_name("merges.txt"))
        return tiktoken_encoding(data_gym_to_mergeable_bpe_ranks(merges, str(path)))
    return load_ranks(path)


def tokenmill_load(path: Path) -> Any:
    import tokenmill

    given = {"pattern": "r50k"} if path.suffix == ".tiktoken" or path.name == "vocab.json" else {}
    return tokenmill.Tokenizer.load(str(path), **given)


LOAD: dict[str, Callable[[Path], Any]] = {
    "tokenmill": tokenmill_load,
    "tiktoken": tiktoken_load,
    "tokenizers": tokenizers_load,
    "gigatoken": gigatoken_load,
    "SentencePiece": sentencepiece_load,
}


def ids_of(name: str, path: Path) -> list[int]:
    """Load a file and encode a text."""
    found = LOAD[name](path).encode(PROBE)
    return list(getattr(found, "ids", found))


# ── The rows


def models(files: dict[str, Path]) -> Cells:
    paths = {
        label: [f"{document}.json", f"{kind}.model"] for label, (document, kind) in MODELS.items()
    }
    paths["BPE"] += ["tokenizer.json", "ranks"]

    def loaded(name: str, label: str) -> list[Path]:
        given = [files[each] for each in paths[label] if each in files]
        return [path for path in given if works(partial(ids_of, name, path))]

    return {
        name: listed({label: partial(loaded, name, label) for label in MODELS})
        for name in LIBRARIES
    }


def training(files: dict[str, Path]) -> Cells:
    import gigatoken
    import sentencepiece
    import tokenizers
    from tiktoken._educational import SimpleBytePairEncoding

    import tokenmill

    corpus = str(files["corpus"])
    prefix = str(files["corpus"].with_name("again"))

    def tokenizers_train() -> list[int]:
        learned = tokenizers.ByteLevelBPETokenizer()
        learned.train(corpus, vocab_size=300, show_progress=False)
        return learned.encode(PROBE).ids

    def sentencepiece_train() -> bytes:
        sentencepiece.SentencePieceTrainer.train(
            input=corpus, model_prefix=prefix, vocab_size=40, model_type="bpe", minloglevel=2
        )
        return Path(f"{prefix}.model").read_bytes()

    def tiktoken_train() -> list[int]:
        pattern = r"\p{L}+| |\s+|."
        learned = SimpleBytePairEncoding.train(TEXT[:2_000], 270, pattern)
        return learned.encode(PROBE, visualise=None)

    trials: dict[str, Trial] = {
        "tokenmill": lambda: tokenmill.train(corpus, vocab_size=300).encode(PROBE),
        "tiktoken": tiktoken_train,
        "tokenizers": tokenizers_train,
        "gigatoken": lambda: gigatoken.train_bpe(corpus, 300, [])[1],
        "SentencePiece": sentencepiece_train,
    }
    # tiktoken describes its module as educational.
    yes = {"tiktoken": "teaching code"}
    return {name: yes.get(name, "yes") if works(trials[name]) else NONE for name in LIBRARIES}


def trainer_rules(files: dict[str, Path]) -> Cells:
    """Count the tie-breaking rules of trainers. The parity tests compare those of tokenmill."""
    import gigatoken

    import tokenmill

    corpus = str(files["corpus"])

    def accepted(names: Iterable[str], trial: Callable[[str], Any]) -> list[str]:
        return [name for name in names if works(partial(trial, name))]

    def named_in_error(trial: Trial) -> list[str]:
        try:
            trial()
        except Exception as error:
            return re.findall(r"['\"]([a-z_0-9]+)['\"]", str(error))
        return []

    # Each trainer of tokenmill, and its rule for pairs with the same count.
    ours = {
        "tokenizers": "smaller ids",
        "rustbpe": "smaller ids",
        "minbpe": "first in the corpus",
        "cs336": "greater bytes",
        "sentencepiece": "fewer characters",
    }
    theirs = named_in_error(lambda: gigatoken.train_bpe(b"a b", 260, [], tie_breaking="?"))
    trainers = accepted(
        ours, lambda rule: tokenmill.train(corpus, vocab_size=300, trainer=rule).encode(PROBE)
    )
    rules = accepted(
        theirs, lambda rule: gigatoken.train_bpe(corpus, 300, [], tie_breaking=rule)[1]
    )
    cells = dict.fromkeys(LIBRARIES, NONE)
    count = len({ours[trainer] for trainer in trainers})
    cells["tokenmill"] = f"{count}, with the ids of {len(trainers)} trainers"
    cells["gigatoken"] = f"{len(rules)}"
    return cells


def files_read(files: dict[str, Path]) -> Cells:
    paths = {
        "`tokenizer.json`": files["tokenizer.json"],
        "`vocab.json`": files["`vocab.json`"],
        "`.model`": files["bpe.model"],
        "GGUF": files["GGUF"],
        "`tekken.json`": files["`tekken.json`"],
        "ranks": files["ranks"],
    }
    return {
        name: listed(
            {
                label: lambda path=path, name=name: ids_of(name, path)
                for label, path in paths.items()
            }
        )
        for name in LIBRARIES
    }


@contextlib.contextmanager
def without_network(folder: Path) -> Iterator[None]:
    """Refuse every connection, and hide downloaded files."""
    refuse = socket.socket.connect
    home = {"HF_HUB_CACHE", "HF_HOME", "TIKTOKEN_CACHE_DIR", "XDG_CACHE_HOME"}
    before = {name: os.environ.get(name) for name in home}

    def connect(self: socket.socket, address: Any) -> None:
        raise OSError("the trial has no network")

    os.environ.update(dict.fromkeys(home, str(folder)))
    socket.socket.connect = connect  # type: ignore[method-assign]
    try:
        yield
    finally:
        socket.socket.connect = refuse  # type: ignore[method-assign]
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def included() -> Cells:
    import gigatoken
    import sentencepiece
    import tiktoken
    import tokenizers

    import tokenmill

    names = tiktoken.list_encoding_names()
    loaders: dict[str, Callable[[str], Any]] = {
        "tokenmill": lambda name: tokenmill.Tokenizer.load(name).encode(PROBE),
        "tiktoken": lambda name: tiktoken.get_encoding(name).encode(PROBE),
        "tokenizers": lambda name: tokenizers.Tokenizer.from_pretrained(name).encode(PROBE).ids,
        "gigatoken": lambda name: gigatoken.Tokenizer(name).encode(PROBE),
    }
    assert not hasattr(sentencepiece.SentencePieceProcessor, "from_pretrained")
    cells = dict.fromkeys(LIBRARIES, NONE)
    with tempfile.TemporaryDirectory() as scratch, without_network(Path(scratch)):
        for name, load in loaders.items():
            # The first failure is enough: some libraries wait for the network for half a minute.
            found = list(
                itertools.takewhile(lambda each, load=load: works(partial(load, each)), names)
            )
            # `gpt2` and `r50k_base` are one vocabulary.
            different = {each.replace("gpt2", "r50k_base") for each in found}
            cells[name] = str(len(different)) if found else "downloads"
    return cells


def offsets(files: dict[str, Path]) -> Cells:
    path = files["tokenizer.json"]

    def of_tokenmill() -> Any:
        return tokenmill_load(path).encode_with_offsets(PROBE)[1]

    def of_tiktoken() -> Any:
        encoding = load_ranks(files["ranks"])
        return encoding.decode_with_offsets(encoding.encode(PROBE))[1]

    def of_gigatoken() -> Any:
        loaded = gigatoken_load(path)
        trials: list[Trial] = [
            lambda: loaded.as_hf()(PROBE, return_offsets_mapping=True)["offset_mapping"],
            lambda: loaded.as_tiktoken().decode_with_offsets(list(loaded.encode(PROBE)))[1],
        ]
        return [trial for trial in trials if works(trial)]

    def of_sentencepiece() -> Any:
        return sentencepiece_load(files["bpe.model"]).encode_as_offset_mapping(PROBE)["offsets"]

    trials: dict[str, Trial] = {
        "tokenmill": of_tokenmill,
        "tiktoken": of_tiktoken,
        "tokenizers": lambda: tokenizers_load(path).encode(PROBE).offsets,
        "gigatoken": of_gigatoken,
        "SentencePiece": of_sentencepiece,
    }
    yes = {"tiktoken": "when decoding"}
    return {name: yes.get(name, "yes") if works(trials[name]) else NONE for name in LIBRARIES}


def public_names(module_name: str) -> Iterator[str]:
    """Yield the public names of a library's modules, classes and functions."""
    package = importlib.import_module(module_name)
    modules = [package]
    for info in pkgutil.walk_packages(package.__path__, f"{module_name}.", onerror=lambda _: None):
        if not info.name.rpartition(".")[2].startswith("_"):
            with contextlib.suppress(ImportError):
                modules.append(importlib.import_module(info.name))
    for module in modules:
        for name, value in vars(module).items():
            inside = getattr(value, "__module__", None) or ""
            if name.startswith("_") or not inside.startswith(module_name):
                continue
            yield name
            if inspect.isclass(value):
                yield from (f"{name}.{each}" for each in dir(value) if not each.startswith("_"))


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def by_names(row: str, **known: str) -> Cells:
    """Return the cells of a row in which a library without a telling name has no feature."""
    cells = {}
    for name, module in LIBRARIES.items():
        found = {each for each in public_names(module) if words_of(each) & WORDS[row]} - UNRELATED
        if name not in known and found:
            sys.exit(f"{row}: {name} has {', '.join(sorted(found))}; write a trial of them")
        cells[name] = known.get(name, NONE)
    return cells


def growing_text(files: dict[str, Path]) -> Cells:
    session = tokenmill_load(files["tokenizer.json"]).session()
    session.append("hello ")
    session.append("world")
    ours = works(lambda: session.ids)
    return by_names("ids of a growing text", tokenmill="sessions" if ours else NONE)


def token_shards(files: dict[str, Path]) -> Cells:
    import gigatoken

    import tokenmill
    from tokenmill.shards import FORMATS

    def written(name: str) -> list[Path]:
        output = files["corpus"].with_name(f"shards-{name}")
        tokenmill.tokenize(
            files["corpus"],
            output,
            tokenmill_load(files["tokenizer.json"]),
            format=name,
            eos=0,
        )
        return [*output.iterdir()]

    ours = sum(works(lambda name=name: written(name)) for name in FORMATS)
    loaded = gigatoken_load(files["tokenizer.json"])
    in_memory = works(lambda: loaded.encode_files(gigatoken.TextFileSource([str(files["corpus"])])))
    return by_names(
        "files to token shards",
        tokenmill=f"{ours} formats",
        gigatoken="ids in memory" if in_memory else NONE,
    )


def interfaces() -> Cells:
    import gigatoken

    import tokenmill.compat

    modules = [info.name for info in pkgutil.iter_modules(tokenmill.compat.__path__)]
    ours = ["tiktoken", "tokenizers", "transformers", "rustbpe", "vllm"]
    spelled = {"vllm": "vLLM"}
    theirs = {"tiktoken": "as_tiktoken", "transformers": "as_hf"}
    cells = dict.fromkeys(LIBRARIES, NONE)
    cells["tokenmill"] = ", ".join(spelled.get(each, each) for each in ours if each in modules)
    has = [label for label, name in theirs.items() if hasattr(gigatoken.Tokenizer, name)]
    cells["gigatoken"] = ", ".join(has) or NONE
    return cells


def wheels() -> Cells:
    import build  # core/build.py

    cells = {}
    for name, module in LIBRARIES.items():
        if name == "tokenmill":
            tags = " ".join(build.TAGS.values())
            parts = {"Linux": "manylinux", "musl": "musllinux", "macOS": "macosx"}
            parts |= {"Windows": "win_amd64", "Windows ARM": "win_arm64"}
            missing = [label for label, part in parts.items() if part not in tags]
        else:
            wanted = f"{module}=={version(module)}"
            missing = [
                label
                for label, tags in PLATFORMS.items()
                if not all(has_wheel(wanted, tag) for tag in tags)
            ]
        cells[name] = f"not {', '.join(missing)}" if missing else "all"
    cells["tokenmill"] += ", not yet published"
    return cells


def has_wheel(wanted: str, tag: str) -> bool:
    """Tell whether pip finds a wheel for a platform. A lower version of the platform is enough."""
    tags = [tag]
    if tag.startswith("manylinux"):
        arch = tag.split("_", 3)[3]
        tags += [f"manylinux_2_17_{arch}", f"manylinux2014_{arch}", f"manylinux_2_34_{arch}"]
    if tag.startswith("musllinux"):
        tags.append(tag.replace("_1_2_", "_1_1_"))
    if tag.startswith("macosx"):
        arch = tag.split("_", 3)[3]
        tags += [
            f"macosx_{major}_0_{kind}"
            for major in (14, 13, 12, 11)
            for kind in (arch, "universal2")
        ]
        tags += [f"macosx_10_{minor}_{arch}" for minor in (15, 14, 13, 12, 9)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    with tempfile.TemporaryDirectory() as scratch:
        command += [scratch, "--only-binary", ":all:", "--python-version", "3.12"]
        command += [part for each in tags for part in ("--platform", each)]
        return subprocess.run([*command, wanted], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
