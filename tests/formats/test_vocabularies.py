"""The embedded vocabularies are small, and equal to OpenAI's files byte for byte."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

import tokenmill
from tokenmill import Tokenizer

# As tiktoken 0.14 pins them in tiktoken_ext/openai_public.py.
SHA256 = {
    "r50k_base": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "p50k_base": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
SHARED = {"gpt2": "r50k_base", "p50k_edit": "p50k_base", "o200k_harmony": "o200k_base"}
IMAGES = Path(tokenmill.__file__).parent / "vocabularies"

# Linux has the current and the peak memory of a process here. Other systems do not.
STATUS = Path("/proc/self/status")
LOADED_BYTES = """
import sys
from tokenmill import Tokenizer
def memory():
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return [int(lines[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM")]
before = memory()[0]
tokenizer = Tokenizer.load(sys.argv[1])
tokenizer.encode("a text")
print(*(after - before for after in memory()))
"""


@pytest.mark.parametrize("name", [*SHA256, *SHARED])
def test_export_is_the_published_rank_file(name, tmp_path):
    Tokenizer.load(name).save(tmp_path / "x.tiktoken")
    digest = hashlib.sha256((tmp_path / "x.tiktoken").read_bytes()).hexdigest()
    assert digest == SHA256[SHARED.get(name, name)]


def test_images_are_small():
    assert sum(path.stat().st_size for path in IMAGES.glob("*.tmv")) <= 3_000_000


if STATUS.exists():

    @pytest.mark.parametrize("name", ["cl100k_base", "o200k_harmony"])
    def test_loading_takes_at_most_40_mb(name):
        command = [sys.executable, "-c", LOADED_BYTES, name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert all(int(size) <= 40_000_000 for size in done.stdout.split()), done.stdout
