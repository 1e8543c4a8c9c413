"""Step 4, "extreme": asynchronous reading, a ring buffer, and a pool of encoders.

One process reads blocks of lines while threads encode earlier blocks. A queue with few slots, the
ring buffer, limits the memory: the reader waits if all slots are taken. Blocks are written in their
order. Encoders release the GIL, so the threads of the pool use all CPU cores.

Files are read, and not mapped into memory, because a line becomes a Python string by a copy in any
case. The threads parse JSON with the GIL, so a fast encoder gains little.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ladder.corpus.encoders import Encoder
from ladder.corpus.ultra import batches, ids_of
from tokenmill.arguments import cpu_count

Encode = Callable[[list[str]], bytes]

BLOCK_BYTES = 1 << 20
SLOTS_PER_THREAD = 2


def run(inputs: list[Path], encoder: Encoder, folder: Path, dtype: str, eos: int) -> list[Path]:
    def encode(lines: list[str]) -> bytes:
        texts = (json.loads(line)["text"] for line in lines)
        return b"".join(ids_of(batch, encoder, dtype, eos) for batch in batches(texts))

    output = folder / "ids.bin"
    threads = cpu_count()
    with ThreadPoolExecutor(threads) as pool:
        asyncio.run(pump(inputs, output, encode, pool, threads * SLOTS_PER_THREAD))
    return [output]


async def pump(
    inputs: list[Path], output: Path, encode: Encode, pool: ThreadPoolExecutor, slots: int
) -> None:
    """Read, encode and write at the same time."""
    loop = asyncio.get_running_loop()
    ring: asyncio.Queue[asyncio.Future[bytes] | None] = asyncio.Queue(slots)

    async def read() -> None:
        for path in inputs:
            with path.open(encoding="utf-8") as file:
                while lines := await asyncio.to_thread(file.readlines, BLOCK_BYTES):
                    await ring.put(loop.run_in_executor(pool, encode, lines))
        await ring.put(None)

    async def write() -> None:
        with output.open("wb") as target:
            while block := await ring.get():
                target.write(await block)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(read())
        tasks.create_task(write())
