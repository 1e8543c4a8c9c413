"""Bytes → complete files: a crash leaves the old file or the new one. And names without links."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeAlias

Data: TypeAlias = bytes | Iterator[bytes]


def write_whole(path: Path, data: Data) -> None:
    """Write a temporary file, flush it to the disk, and rename it.

    The final name never refers to a partial file. Links are followed. Devices and pipes, such as
    /dev/stdout, are written directly.
    """
    write_together({path: data})


def write_new(path: Path, data: Data) -> bool:
    """Write a new file. Return False if it exists, also if another process has just written it."""
    with _name_in_errors(path):
        temporary = _write_temporary(path, data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links, where the last writer wins
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def write_together(files: Mapping[Path, Data]) -> None:
    """Write several files, and rename them in the order of `files` when all are on the disk.

    A crash between two renames leaves the first files new and the others old.
    """
    temporaries: dict[Path, Path] = {}
    with ExitStack() as stack:
        for path, data in files.items():
            with _name_in_errors(path):
                if path.exists() and not path.is_file():  # `realpath` cannot resolve /dev/fd/3
                    with path.open("wb") as file:
                        file.writelines(_parts(data))
                    continue
                temporaries[path] = _write_temporary(Path(os.path.realpath(path)), data)
                stack.callback(temporaries[path].unlink, missing_ok=True)
        for path, temporary in temporaries.items():
            with _name_in_errors(path):
                target = Path(os.path.realpath(path))
                temporary.replace(target)
            sync_folder(target.parent)


@contextmanager
def _name_in_errors(path: Path) -> Iterator[None]:
    """Put the name of the final file into OS errors, instead of the temporary name."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _parts(data: Data) -> Iterable[bytes]:
    return data if isinstance(data, Iterator) else [data]


def _write_temporary(target: Path, data: Data) -> Path:
    """Write the data to a temporary file in the same folder, and flush it to the disk."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(_parts(data))
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private. A saved file gets the mode of open().
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def sync_folder(folder: Path) -> None:
    """Flush the names of a folder to the disk, on systems that can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def name_resolver() -> Callable[[str], str]:
    """A function that returns the name of a file without links. It resolves each folder once."""
    real_folder = cache(os.path.realpath)

    def resolve(name: str) -> str:
        file = os.path.realpath(name) if os.path.islink(name) else name  # noqa: PTH114 (faster)
        folder, base = os.path.split(file)
        return os.path.join(real_folder(folder), base)  # noqa: PTH118 (faster)

    return resolve
