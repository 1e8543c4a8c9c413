"""A corpus → processor instructions a byte of one later pass, by function.

    instructions.py [VOCABULARY [CORPUS…]]        o200k_base, every corpus

Counted by valgrind (which has to be installed) on one megabyte, with a core that keeps its names.
Counts are the same in every run, where times are not; but valgrind knows no AVX-512, so scanning
is counted at x86-64-v3. One more pass is counted than in a second run, and the difference shown.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import corpora

ROOT = Path(__file__).resolve().parent.parent
BYTES = 1_000_000
SHOWN = 8  # functions

PASSES = """
import sys
from tokenmill import Tokenizer
tokenizer, text = Tokenizer.load(sys.argv[1]), open(sys.argv[2], "rb").read()
for _ in range(int(sys.argv[3])):
    tokenizer.encode_array(text, threads=1)
"""


def main(vocabulary: str = "o200k_base", *names: str) -> None:
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: apt install valgrind")
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "tokenmill"
        shutil.copytree(ROOT / "src" / "tokenmill", package)
        subprocess.run(
            [sys.executable, ROOT / "core" / "build.py", "--out", package],
            env={**os.environ, "TOKENMILL_KEEP_NAMES": "1"},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        for name in names or corpora.CORPORA:
            corpora.prepare(name)
            text = Path(folder) / "text"
            text.write_bytes("\n\n".join(corpora.first(name, 2)).encode()[:BYTES])
            report(name, count(vocabulary, text, 3) - count(vocabulary, text, 2))


def count(vocabulary: str, text: Path, passes: int) -> Counter[str]:
    """Instructions of each function below the one that encodes a document."""
    folder = text.parent
    out = folder / "callgrind"
    command = ["valgrind", "--tool=callgrind", "--toggle-collect=*encodeDocument*"]
    command += ["--compress-strings=no", f"--callgrind-out-file={out}", sys.executable, "-c"]
    subprocess.run(
        [*command, PASSES, vocabulary, text, str(passes)],
        env={**os.environ, "PYTHONPATH": str(folder)},
        stderr=subprocess.DEVNULL,
        check=True,
    )
    counts: Counter[str] = Counter()
    function, is_call = "", False
    for line in out.read_text().splitlines():
        if line.startswith("fn="):
            function = re.sub(r"__anon_\d+", "", line[3:])
        elif line.startswith("calls="):
            is_call = True  # the next line has what the callee took
        elif re.match(r"[+*-]?\d* \d+$", line):
            if not is_call:
                counts[function] += int(line.split()[1])
            is_call = False
    return counts


def report(name: str, counts: Counter[str]) -> None:
    print(f"{name}: {counts.total() / BYTES:.1f} instructions a byte")
    for function, number in counts.most_common(SHOWN):
        print(f"  {number / BYTES:7.2f}  {function}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
