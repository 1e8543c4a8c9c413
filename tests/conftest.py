"""Our embedded tokenizers and tiktoken's, the shared data, and the seed of the run."""

from __future__ import annotations

import base64
import hashlib
import os
import random
import signal
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import TypeVar

import hard_inputs
import hypothesis
import pytest
import tiktoken
import tiktoken_ext.openai_public as openai

from tokenmill import Tokenizer, _native, reference

# A shell ignores interrupts in background jobs, and child processes inherit that. Tests that
# interrupt a program need the usual handler.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

T = TypeVar("T")

EMBEDDED = ("r50k_base", "p50k_base", "p50k_edit", "cl100k_base", "o200k_base", "o200k_harmony")

DATA = Path(__file__).parent / "data"
FIXTURES = sorted([*DATA.glob("udhr/*"), *DATA.glob("code/*"), *DATA.glob("*.txt")])

# A bit of everything; and a pattern that leaves out all but letters.
TEXT = "It's 1,234 naïve 中文 🙂\n\n  'LL do <|endoftext|>."
LETTERS_ONLY = r"\p{L}+"

# One tokenizer for each of the three patterns, for tests of the pattern alone.
each_pattern = pytest.mark.parametrize("name", ["r50k_base", "cl100k_base", "o200k_base"])

# More vocabularies and corpora, next to the checkout. A test that needs them is only defined if
# they exist, so no run reports a skip.
_shared = Path(os.environ.get("TOKENMILL_SHARED", Path(__file__).parents[2] / "shared")) / "data"
SHARED_DATA = _shared if _shared.is_dir() else None


def variable(name: str, default: int, least: int, most: int) -> int:
    """The number in an environment variable. An empty one is the default."""
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or not least <= int(text) <= most:
        raise pytest.UsageError(f"{name} must be a number from {least} to {most}, got {text!r}")
    return int(text)


# The seed of all random tests of a run, also those of hypothesis. Worker processes inherit it.
SEED = variable("TOKENMILL_SEED", random.randrange(2**32), 0, 2**32 - 1)
os.environ["TOKENMILL_SEED"] = str(SEED)

# The share of their examples that random tests run, in percent: 100 in `make test-all`.
FUZZ = variable("TOKENMILL_FUZZ", 5, 1, 100)


def examples(count: int) -> int:
    """The number of examples to run of a random test that runs `count` in `make test-all`."""
    return max(1, count * FUZZ // 100)


def sample(items: Sequence[T], salt: object = "") -> list[T]:
    """All items in `make test-all`, and a random part of them, in their order, by default.

    Another `salt` gives another part.
    """
    if FUZZ >= 100:
        return list(items)
    count = min(len(items), examples(len(items)))
    places = random.Random(f"{SEED} {salt}").sample(range(len(items)), count)
    return [items[place] for place in sorted(places)]


# Texts of tests are short: characters of large scripts are cut into units from the first one on.
_native.use_units_after(0)

hypothesis.settings.register_profile("tokenmill", deadline=None, database=None, print_blob=False)
hypothesis.settings.load_profile("tokenmill")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    keep_temporary_files_together(config)
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = SEED
    # Notes to the user, such as that a small text has too few merges; warnings else are errors.
    config.addinivalue_line("filterwarnings", "ignore::tokenmill.TrainingWarning")


def keep_temporary_files_together(config: pytest.Config) -> None:
    """Make one folder for the temporary files of this process and its children, and remove it.

    A process that a test kills leaves its files. pytest's own folders stay where they are.
    """
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    os.environ["TMPDIR"] = tempfile.tempdir = folder.name


_SEED_LINE = (
    f"seed of this run: {SEED}; to repeat it, set TOKENMILL_SEED={SEED} TOKENMILL_FUZZ={FUZZ}"
)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    # This line is printed first, so that it is there after a crash of the core. `-q` hides the
    # header, so it is a line of its own.
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal:  # a worker process has none
        terminal.write_line(_SEED_LINE)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode
) -> None:
    if exitstatus != pytest.ExitCode.OK:
        terminalreporter.write_line(_SEED_LINE)


def read_ranks(data: bytes) -> dict[bytes, int]:
    """The contents of a tiktoken rank file → bytes of each token and its rank."""
    lines = (line.split() for line in data.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def write_ranks(path: Path, tokens: Iterable[bytes]) -> Path:
    """A tiktoken rank file of `tokens`, ranked in their order."""
    lines = (b"%b %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens))
    path.write_bytes(b"".join(lines))
    return path


def repaired(text: str) -> str:
    """`text` with its surrogates as tiktoken reads them."""
    return reference.to_bytes(text).decode()


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, Tokenizer]:
    """Every embedded tokenizer by its name."""
    return {name: Tokenizer.load(name) for name in EMBEDDED}


@pytest.fixture(scope="session")
def rank_files(tokenizers: dict[str, Tokenizer], tmp_path_factory) -> dict[str, Path]:
    """The rank file of every embedded tokenizer, saved by it."""
    return save_ranks(tokenizers, tmp_path_factory.mktemp("ranks"))


def save_ranks(tokenizers: dict[str, Tokenizer], folder: Path) -> dict[str, Path]:
    paths = {name: folder / f"{name}.tiktoken" for name in EMBEDDED}
    for name, path in paths.items():
        tokenizers[name].save(path)
    return paths


def make_encodings(rank_files: dict[str, Path]) -> dict[str, tiktoken.Encoding]:
    """tiktoken's encodings by name, with its patterns and special tokens, without a network.

    Only the download is replaced, by the files that our tokenizers save; each must have the
    SHA-256 that tiktoken demands of the original.
    """
    parsed: dict[str, dict[bytes, int]] = {}

    def load(url: str, expected_hash: str) -> dict[bytes, int]:
        name = PurePosixPath(url).stem
        if name not in parsed:
            data = rank_files[name].read_bytes()
            assert hashlib.sha256(data).hexdigest() == expected_hash, f"{name}: not the original"
            parsed[name] = read_ranks(data)
        return parsed[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai, "load_tiktoken_bpe", load)
        # The two files of GPT-2 hold the same ranks as r50k_base.
        gpt2 = read_ranks(rank_files["r50k_base"].read_bytes())
        patch.setattr(openai, "data_gym_to_mergeable_bpe_ranks", lambda **_: gpt2)
        return {
            name: tiktoken.Encoding(**make()) for name, make in openai.ENCODING_CONSTRUCTORS.items()
        }


@pytest.fixture(scope="session")
def encodings(rank_files: dict[str, Path]) -> dict[str, tiktoken.Encoding]:
    return make_encodings(rank_files)


@pytest.fixture(scope="session")
def ranks(rank_files: dict[str, Path]) -> dict[str, dict[bytes, int]]:
    """The ranks of every embedded tokenizer, as the reference takes them."""
    return {name: read_ranks(path.read_bytes()) for name, path in rank_files.items()}


@pytest.fixture(scope="session")
def pairs_file(tmp_path_factory) -> Path:
    """The rank file of all bytes and all pairs of bytes, the pairs in random order.

    Its ids show where pretokens begin and end. Real vocabularies hide most of that: after a cut
    in the wrong place, such as the one in "'ſ|a", they often merge to the same tokens.
    """
    pairs = [bytes([first, second]) for first in range(256) for second in range(256)]
    random.Random(SEED).shuffle(pairs)
    path = tmp_path_factory.mktemp("pairs") / "pairs.tiktoken"
    return write_ranks(path, [bytes([byte]) for byte in range(256)] + pairs)


@pytest.fixture(params=EMBEDDED)
def name(request: pytest.FixtureRequest) -> str:
    """Each embedded name in turn."""
    return request.param


@pytest.fixture
def tokenizer(name: str, tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    """Each embedded tokenizer in turn."""
    return tokenizers[name]


@pytest.fixture
def encoding(name: str, encodings: dict[str, tiktoken.Encoding]) -> tiktoken.Encoding:
    """tiktoken's encoding for `tokenizer`."""
    return encodings[name]


@pytest.fixture
def cl100k(tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    """One tokenizer, for tests that do not depend on the vocabulary."""
    return tokenizers["cl100k_base"]


@pytest.fixture
def letters_only(rank_files: dict[str, Path]) -> Tokenizer:
    """A tokenizer whose pattern leaves out all that is not a letter."""
    return Tokenizer.load(
        rank_files["r50k_base"], pattern=LETTERS_ONLY, special_tokens={"<|x|>": 60_000}
    )


@pytest.fixture(scope="session")
def mixed_texts() -> list[str | bytes]:
    """Many small documents of all kinds, some empty, and a few that are worth cutting."""
    texts: list[str | bytes] = [*hard_inputs.STRINGS[::7], *hard_inputs.BYTES[::11], "", b""]
    texts += [path.read_text(encoding="utf-8") for path in FIXTURES]
    texts += [data for _, data in hard_inputs.files(60_000)]
    random.Random(SEED).shuffle(texts)
    return texts


@pytest.fixture(scope="session")
def hard_files() -> dict[str, str]:
    """The hard files as text, of a size that tiktoken can take: all 37 in 1.2 s a vocabulary (2
    cores of a Zen 3). In 1,000,000 spaces its regex engine runs out of stack with o200k_base."""
    files = hard_inputs.files(200_000)
    return {name: d if isinstance(d, str) else d.decode(errors="replace") for name, d in files}


@pytest.fixture(scope="session")
def shared_data() -> Path | None:
    """The folder with the shared data, where there is one."""
    return SHARED_DATA
