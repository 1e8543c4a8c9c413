"""Bytes → files that are whole or not there."""

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

Data: TypeAlias = bytes | Iterator[bytes]


def write_whole(path: Path, data: Data) -> None:
    """Writes a file under another name, flushes it to the disk, and renames it.

    Whatever happens meanwhile, nothing half-written stands under the final name. A link is
    followed; what is not a regular file, such as /dev/stdout, is written to as it is.
    """
    write_together({path: data})


def write_new(path: Path, data: Data) -> bool:
    """The same for a file that others may write at this moment; False if one of them was first."""
    with _naming(path):
        temporary = _write_beside(path, data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links: then the last one wins
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def write_together(files: Mapping[Path, Data]) -> None:
    """Writes files that belong together: all of them lie on the disk under other names before the
    first is renamed, in the order of `files`.

    No file system renames two at once: after a crash between them the first ones are new.
    """
    temporaries: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            with _naming(path):
                if _is_device(path):
                    with path.open("wb") as file:
                        file.writelines(_parts(data))
                else:
                    temporaries[path] = _write_beside(Path(os.path.realpath(path)), data)
        for path, temporary in temporaries.items():
            with _naming(path):
                target = Path(os.path.realpath(path))
                temporary.replace(target)
            sync_folder(target.parent)
    finally:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors inside name the file, not the temporary one, of which the caller knows nothing."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _is_device(path: Path) -> bool:
    """Whether it is there and no regular file. A pipe has no name that realpath could give."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _parts(data: Data) -> Iterable[bytes]:
    return data if isinstance(data, Iterator) else [data]


def _write_beside(target: Path, data: Data) -> Path:
    """A file in the same folder that holds the data, on the disk."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(_parts(data))
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; a saved file has the mode that open() would give it.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def sync_folder(folder: Path) -> None:
    """Names given in a folder are on the disk before what follows; not every system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
