"""Zig sources → the native module `tokenmill._native`, with the compiler of the `ziglang` wheel.

The build hook, the Makefile and people by hand all use this file:

    python core/build.py                                    # for this machine, into src/tokenmill
    python core/build.py --target aarch64-macos --out dist  # for another one
    python core/build.py test                               # the core's own tests
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

CORE = Path(__file__).resolve().parent
ROOT = CORE.parent
NAME = "_native"

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
    """Runs the compiler, with its caches inside the tree: $HOME need not be writable."""
    cache = str(ROOT / "build" / "zig-cache")
    environment = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache, **os.environ}
    command = [str(compiler()), *map(str, arguments)]
    if subprocess.run(command, env=environment).returncode:
        sys.exit(f"zig failed: {' '.join(command)}")


def build(out: Path, target: str | None = None, mode: str = "ReleaseFast") -> Path:
    """Puts the module for `target` into the folder `out` and returns its path.

    The compiler keeps no linked module, and a minute is long: the last of each target and mode is
    kept under the digest of what it was made of.
    """
    target = target or host_target()
    library = NAME + (".pyd" if "windows" in target else ".abi3.so")
    store = ROOT / "build" / "modules"
    store.mkdir(parents=True, exist_ok=True)
    kept = store / f"{target}-{mode}-{digest(target, mode)}"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
            link(Path(scratch) / library, target, mode)
            for old in store.glob(f"{target}-{mode}-*"):
                old.unlink(missing_ok=True)
            (Path(scratch) / library).replace(kept)
    out.mkdir(parents=True, exist_ok=True)
    # A running interpreter may have the old one mapped: replace it, do not write into it.
    fresh = out / f"{library}.{os.getpid()}.new"
    shutil.copy2(kept, fresh)
    fresh.replace(out / library)
    return out / library


def digest(target: str, mode: str) -> str:
    """What a module is made of: the sources, this file, the compiler and its options."""
    # The compiler's size and time stand for its version, which only a package's metadata tells.
    zig_file = compiler().stat()
    parts = [target, mode, f"{zig_file.st_size} {zig_file.st_mtime_ns}"]
    parts += [os.environ.get("TOKENMILL_KEEP_NAMES", "")]
    names = sorted([*CORE.rglob("*.zig"), Path(__file__)])
    for name in names:
        content = hashlib.sha256(name.read_bytes()).hexdigest()
        parts.append(f"{name.relative_to(CORE).as_posix()} {content}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def link(module: Path, target: str, mode: str) -> None:
    """Compiles the core to the file `module`, with what it needs beside it."""
    arch, system = target.split("-")[:2]
    arguments: list[str | Path] = ["build-lib", "-dynamic", "--name", NAME]
    arguments += [*code_options(target, mode), *level_objects(module.parent, target, mode)]
    arguments += [f"-Mroot={CORE / 'python.zig'}", f"-femit-bin={module}"]
    if system.startswith("windows"):
        arguments += [import_library(module.parent, arch)]
    else:
        arguments += ["-lc", "-fallow-shlib-undefined"]
    if system.startswith("macos"):
        arguments += ["-install_name", f"@rpath/{module.name}"]
    zig(*arguments)


def code_options(target: str, mode: str, level: str = "v2") -> list[str | Path]:
    """How a file is compiled; a level is one of x86-64's, of which v2 is the baseline here."""
    options: list[str | Path] = ["-target", target, "-O", mode]
    if mode == "ReleaseFast" and not os.environ.get("TOKENMILL_KEEP_NAMES"):
        options += ["-fstrip"]
    if target.startswith("x86_64"):
        options += [f"-mcpu=x86_64_{level}"]
    return options


def level_objects(scratch: Path, target: str, mode: str) -> list[Path]:
    """The scanners for the levels above the baseline, of which the core picks when it is loaded."""
    if not target.startswith("x86_64"):
        return []
    objects = []
    for level in ("v3", "v4"):
        objects.append(scratch / f"scanners_{level}_{mode}.o")
        options = code_options(target, mode, level)
        zig("build-obj", *options, "-fPIC", CORE / "level.zig", f"-femit-bin={objects[-1]}")
    return objects


def import_library(scratch: Path, arch: str) -> Path:
    """An import library for python3.dll, made of the names that the seam declares."""
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
    target = host_target()
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
        objects = level_objects(Path(scratch), target, "Debug")
        options = code_options(target, "Debug")
        zig("test", "-lc", *options, *objects, f"-Mroot={CORE / 'root.zig'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("job", nargs="?", choices=["build", "test"], default="build")
    parser.add_argument("--out", type=Path, default=ROOT / "src" / "tokenmill")
    parser.add_argument("--target", choices=TAGS)
    parser.add_argument(
        "--mode", default="ReleaseFast", choices=["Debug", "ReleaseSafe", "ReleaseFast"]
    )
    options = parser.parse_args()
    if options.job == "test":
        test()
    else:
        print(build(options.out, options.target, options.mode))


if __name__ == "__main__":
    main()
