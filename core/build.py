"""Zig sources → the native module `tokenmill._native`, with the compiler of the `ziglang` wheel.

The build hook and the Makefile use this file. It also runs by hand:

    python core/build.py                                    # for this machine, into src/tokenmill
    python core/build.py --target aarch64-macos.11.0 --out dist    # for another machine
    python core/build.py test                               # the tests of the core
    python core/build.py fuzz --seconds 600                 # random tests, with checks
    python core/build.py portable                           # compile it for WebAssembly

The compiler uses one CPU core for one object, so the module is compiled as several objects at the
same time: the block scanners once per CPU feature level, and everything else.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import os
import re
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CORE = Path(__file__).resolve().parent
ROOT = CORE.parent
NAME = "_native"
CACHED_MAX = 4  # compiled modules of a target and mode
ROOT_MODULE = CORE / "python.zig"

# Zig target → platform tag of the wheel.
TAGS = {
    "x86_64-linux-gnu.2.17": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "aarch64-linux-gnu.2.17": "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "x86_64-linux-musl": "musllinux_1_1_x86_64",
    "aarch64-linux-musl": "musllinux_1_1_aarch64",
    "x86_64-macos.11.0": "macosx_11_0_x86_64",
    "aarch64-macos.11.0": "macosx_11_0_arm64",
    "x86_64-windows-gnu": "win_amd64",
    "aarch64-windows-gnu": "win_arm64",
}


def host_target() -> str:
    """The target of the running interpreter."""
    system, _, arch = sysconfig.get_platform().partition("-")
    arch = arch.rpartition("-")[2].lower()
    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(arch, arch)
    if system == "win":
        target = f"{arch}-windows-gnu"
    elif system == "macosx":
        target = f"{arch}-macos.11.0"
    elif "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or ""):
        target = f"{arch}-linux-musl"
    else:
        target = f"{arch}-linux-gnu.2.17"
    if target not in TAGS:
        sys.exit(
            f"tokenmill has no build for {sysconfig.get_platform()}; it has: {', '.join(TAGS)}"
        )
    return target


def compiler() -> Path:
    """The compiler's file in the `ziglang` wheel."""
    try:
        import ziglang
    except ImportError:
        sys.exit("the Zig compiler is missing: pip install ziglang==0.16.0")
    return Path(ziglang.__file__).parent / ("zig.exe" if os.name == "nt" else "zig")


def zig(*arguments: str | Path) -> None:
    """Runs the compiler. Its cache is inside the tree, so $HOME may be read-only."""
    cache = str(ROOT / "build" / "zig-cache")
    environment = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache, **os.environ}
    command = [str(compiler()), *map(str, arguments)]
    if subprocess.run(command, env=environment).returncode:
        raise SystemExit(f"the Zig compiler failed: {' '.join(command)}")


def build(out: Path, target: str | None = None, mode: str = "ReleaseFast") -> Path:
    """Puts the module for `target` into the folder `out` and returns its path.

    A compiled module is cached in build/modules under the digest of its sources, so that the
    Makefile, an editable install and a wheel compile it once.
    """
    target = target or host_target()
    library = NAME + (".pyd" if "windows" in target else ".abi3.so")
    cache = ROOT / "build" / "modules"
    cache.mkdir(parents=True, exist_ok=True)
    cached = cache / f"{target}-{mode}-{digest(target, mode)}"
    if not cached.exists():
        with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
            compile_module(Path(scratch) / library, target, mode)
            (Path(scratch) / library).replace(cached)
        by_age = sorted(cache.glob(f"{target}-{mode}-*"), key=lambda path: path.stat().st_mtime)
        for old in by_age[:-CACHED_MAX]:
            old.unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    # A running interpreter may have mapped the old file, so the new one replaces it by a rename.
    fresh = out / f"{library}.{os.getpid()}.new"
    shutil.copy2(cached, fresh)
    fresh.replace(out / library)
    return out / library


def digest(target: str, mode: str) -> str:
    """A digest of the sources, of this file, and of the compiler's version and options."""
    compiler()  # A missing compiler is an error that says how to install it.
    parts = [target, mode, importlib.metadata.version("ziglang")]
    parts += [os.environ.get("TOKENMILL_KEEP_NAMES", "")]
    for path in sorted([*CORE.rglob("*.zig"), *CORE.rglob("*.bin"), Path(__file__).resolve()]):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        parts.append(f"{path.relative_to(CORE).as_posix()} {content}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def compile_module(module: Path, target: str, mode: str) -> None:
    """Compiles the objects of the module in parallel and links them to the file `module`."""
    started = time.monotonic()
    scratch = module.parent
    arch, system = target.split("-")[:2]
    scanners = scanner_objects(scratch, target, mode)
    jobs = list(scanners.values())
    link: list[str | Path] = ["build-lib", "-dynamic", "--name", NAME, *code_options(target, mode)]
    if system.startswith("windows"):
        # Zig links the start-up code of a DLL and the system's libraries with a root module only.
        link += [*scanners, f"-Mroot={ROOT_MODULE}", import_library(scratch, arch)]
    else:
        main = scratch / "main.o"
        jobs.insert(0, object_job(main, ROOT_MODULE, [*code_options(target, mode), "-lc"]))
        link += [main, *scanners, "-lc", "-fallow-shlib-undefined"]
    if system.startswith("macos"):
        link += ["-install_name", f"@rpath/{module.name}"]
    run_jobs(jobs)
    zig(*link, f"-femit-bin={module}")
    print(f"compiled the core ({mode}) in {time.monotonic() - started:.0f} s", file=sys.stderr)


def cpu_count() -> int:
    """The number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_jobs(jobs: list[Callable[[], None]]) -> None:
    """Runs `jobs` on all CPU cores, in their order. The longest should be the first."""
    stop = threading.Event()

    def run(job: Callable[[], None]) -> None:
        try:
            if not stop.is_set():
                job()
        except BaseException:
            stop.set()
            raise

    with ThreadPoolExecutor(cpu_count()) as pool:
        for done in [pool.submit(run, job) for job in jobs]:
            done.result()


def object_job(path: Path, source: Path, options: list[str | Path]) -> Callable[[], None]:
    """A job that compiles one source file to the object `path`."""
    return lambda: zig("build-obj", *options, "-fPIC", f"-Mroot={source}", f"-femit-bin={path}")


def code_options(target: str, mode: str, level: str = "v2") -> list[str | Path]:
    """Options of the compiler. `level` is a feature level of x86-64, where v2 is the baseline."""
    options: list[str | Path] = ["-target", target, "-O", mode]
    if mode == "ReleaseFast" and not os.environ.get("TOKENMILL_KEEP_NAMES"):
        options += ["-fstrip"]
    if target.startswith("x86_64"):
        options += [f"-mcpu=x86_64_{level}"]
    return options


def scanner_objects(scratch: Path, target: str, mode: str) -> dict[Path, Callable[[], None]]:
    """Objects with the block scanners, one per CPU feature level, and the jobs that make them."""
    # Debug has the same checks as ReleaseSafe, and compiles in 4 s per object instead of 19.
    mode = "Debug" if mode == "ReleaseSafe" else mode
    jobs = {}
    for level in ("v4", "v3", "v2") if target.startswith("x86_64") else ("baseline",):
        path = scratch / f"scanners_{level}.o"
        jobs[path] = object_job(path, CORE / "level.zig", code_options(target, mode, level))
    return jobs


def import_library(scratch: Path, arch: str) -> Path:
    """An import library for python3.dll with the names that python/api.zig declares."""
    source = (CORE / "python" / "api.zig").read_text()
    functions = re.findall(r"extern fn (Py\w+)", source)
    data = re.findall(r'(?:data|pointer)\("(\w+)"\)', source)
    exports = "".join(f"    {name}\n" for name in functions) + "".join(
        f"    {name} DATA\n" for name in data
    )
    definition = scratch / "python3.def"
    definition.write_text(f"LIBRARY python3.dll\nEXPORTS\n{exports}")
    machine = {"x86_64": "i386:x86-64", "aarch64": "arm64"}[arch]
    zig("dlltool", "-m", machine, "-d", definition, "-l", scratch / "python3.lib")
    return scratch / "python3.lib"


def test() -> None:
    """Runs the tests of the core in Debug mode: bounds, overflows and leaks are failures."""
    share = os.environ.get("TOKENMILL_FUZZ") or "5"
    with compiled_tests("Debug") as binary:
        seed = os.environ.get("TOKENMILL_SEED") or str(secrets.randbelow(2**32))
        repeat = f"TOKENMILL_SEED={seed} TOKENMILL_FUZZ={share}"
        print(f"seed of this run: {seed}; to repeat it, set {repeat}", flush=True)
        if run_tests(binary, seed, share).returncode:
            raise SystemExit(f"tests of the core failed; {repeat} repeats them")


def fuzz(seconds: float) -> None:
    """Runs the tests of the core with one seed after the other, in a build with checks."""
    share = os.environ.get("TOKENMILL_FUZZ") or "5"
    with compiled_tests("ReleaseSafe") as binary:
        print(f"running the tests of the core for {seconds:.0f} s", flush=True)
        deadline, runs = time.monotonic() + seconds, 0
        while runs == 0 or time.monotonic() < deadline:
            seed = str(secrets.randbelow(2**32))
            done = run_tests(binary, seed, share, capture_output=True, text=True)
            if done.returncode:
                repeat = f"TOKENMILL_SEED={seed} TOKENMILL_FUZZ={share}"
                print(done.stderr)
                raise SystemExit(f"tests of the core failed; {repeat} make test-core repeats them")
            runs += 1
    print(f"no failure with {runs} seeds")


@contextlib.contextmanager
def compiled_tests(mode: str) -> Iterator[Path]:
    """The program with all tests of the core. Random tests read their seed from its arguments."""
    target = host_target()
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
        scanners = scanner_objects(Path(scratch), target, "Debug")
        run_jobs(list(scanners.values()))
        binary = Path(scratch) / "tests"
        options = ["-lc", *code_options(target, mode), "--test-no-exec", f"-femit-bin={binary}"]
        zig("test", *options, *scanners, f"-Mroot={CORE / 'root.zig'}")
        yield binary


def run_tests(
    binary: Path, seed: str, share: str, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs the tests with a seed and a share of the random examples."""
    environment = {**os.environ, "TOKENMILL_FUZZ": share}
    return subprocess.run([binary, f"--seed={seed}"], cwd=ROOT, env=environment, **options)


def check_portable() -> None:
    """Compiles the core for WebAssembly, which has neither threads nor files."""
    (ROOT / "build").mkdir(exist_ok=True)
    options: list[str | Path] = ["-target", "wasm32-freestanding", "-mcpu=generic+simd128"]
    options += ["-O", "ReleaseSmall", "-fsingle-threaded"]
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
        sources = [CORE / "portable.zig", CORE / "level.zig"]
        run_jobs([object_job(Path(scratch) / f"{path.stem}.o", path, options) for path in sources])
    print("the core compiles for WebAssembly")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "job", nargs="?", choices=["build", "test", "fuzz", "portable"], default="build"
    )
    parser.add_argument("--seconds", type=float, default=60, help="time of fuzz")
    parser.add_argument("--out", type=Path, default=ROOT / "src" / "tokenmill")
    parser.add_argument("--target", choices=TAGS)
    parser.add_argument(
        "--mode", default="ReleaseFast", choices=["Debug", "ReleaseSafe", "ReleaseFast"]
    )
    options = parser.parse_args()
    if options.job == "test":
        test()
    elif options.job == "fuzz":
        fuzz(options.seconds)
    elif options.job == "portable":
        check_portable()
    else:
        print(build(options.out, options.target, options.mode))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
