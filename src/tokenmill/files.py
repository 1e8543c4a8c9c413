"""Bytes → a file that is whole or not there."""

import os
import stat
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file under another name, flushes it to the disk, and renames it.

    Whatever happens meanwhile, nothing half-written stands under the final name. A link is
    followed; what is not a regular file, such as /dev/stdout, is written to as it is.
    """
    try:
        if _is_device(path):
            path.write_bytes(data)
        else:
            _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        # The error names the temporary file, of which the caller knows nothing.
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _is_device(path: Path) -> bool:
    """Whether it is there and no regular file. A pipe has no name that realpath could give."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _replace(target: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; a saved file has the mode that open() would give it.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
