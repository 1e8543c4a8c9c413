"""Hard inputs as single documents → CPU seconds of `tokenize` and of `encode_array`, and the ratio.

    long_documents.py [MEGABYTES [NAME…]]        1, 16 and 64 MB, every text

Each file of tests/helpers/hard_inputs.py is one document of a text file, and 1 MB is 16 such files.
A task reads, encodes and writes them as Megatron shards on one thread, in a process with the memory
settings of a worker. `encode_array` gets the same bytes in memory, in a process without them. The
best of three rounds counts. Every table ends with the highest ratio.
"""

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tokenmill import Tokenizer
from tokenmill.corpus import find
from tokenmill.tokenizing import plan
from tokenmill.tokenizing.executors import prepare_process
from tokenmill.tokenizing.options import resolve_options
from tokenmill.tokenizing.output import open_output
from tokenmill.tokenizing.task import Job, block_bytes_of, run_task

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

import hard_inputs

VOCABULARY = "o200k_base"
SIZES = (1, 16, 64)  # MB
ROUNDS = 3
TASK_BYTES = 16_000_000
UNSPLIT_BYTES = 256 << 20


def fastest(
    call: Callable[[], object],
    prepare: Callable[[], None] = lambda: None,
    clean: Callable[[], None] = lambda: None,
) -> float:
    """CPU seconds of a call in a process of its own, the best of the rounds after the first one."""

    def run() -> None:
        prepare()
        times = []
        for _ in range(ROUNDS + 1):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
            clean()  # to replace a file takes longer than to write a new one
        child.send(min(times[1:]))

    parent, child = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"a measurement ended with exit code {process.exitcode}")
    return float(parent.recv())


def measure(tokenizer: Tokenizer, text: bytes, folder: Path) -> tuple[float, float]:
    """CPU seconds of `tokenize` and of `encode_array`."""
    inputs, output = folder / "inputs", open_output(folder / "output")
    inputs.mkdir()
    copies = range(max(1, TASK_BYTES // len(text)))
    for number in copies:
        (inputs / f"{number}.txt").write_bytes(text)
    given = {"utf8": "bytes", "eos": None}
    options = resolve_options(given | {"max_unsplit_bytes": UNSPLIT_BYTES}, tokenizer)
    (task,) = plan.make_plan(find(inputs), options | {"task_bytes": UNSPLIT_BYTES}, tokenizer).tasks
    job = Job(output, folder, options, tokenizer, block_bytes_of(options["memory"], 1))
    if run_task(job, task)["documents"] != len(copies):
        raise SystemExit("a text is not one document")
    run = fastest(
        lambda: run_task(job, task),
        lambda: prepare_process(options["memory"]),
        lambda: output.remove(output.sizes()),
    )
    encode = fastest(lambda: [tokenizer.encode_array(text, threads=1) for _ in copies])
    return run, encode


def main(sizes: tuple[int, ...] = SIZES, names: tuple[str, ...] = ()) -> None:
    tokenizer = Tokenizer.load(VOCABULARY)
    for size in sizes:
        print(f"{VOCABULARY}, {size} MB     tokenize  encode_array  ratio")
        ratios = {}
        for file, data in hard_inputs.files(size * 1_000_000):
            name = file.partition(".")[0]
            if not data or (names and name not in names):
                continue
            text = data.encode() if isinstance(data, str) else data
            with tempfile.TemporaryDirectory() as folder:
                run, encode = measure(tokenizer, text, Path(folder))
            ratios[name] = run / encode
            print(f"  {name:20} {run:10.3f} s {encode:11.3f} s {ratios[name]:6.2f}", flush=True)
        highest = max(ratios, key=ratios.__getitem__)
        print(f"  highest: {highest}, {ratios[highest]:.2f}", flush=True)


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:2])) or SIZES, tuple(sys.argv[2:]))
