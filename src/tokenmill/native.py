"""The one place that imports the native core, and says how to build it when it is not there."""

import os
import sysconfig

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(
        "tokenmill has no build for free-threaded Python yet, whose objects look different; "
        "use a CPython with the GIL (its work runs without the GIL there, too)"
    )

try:
    from tokenmill import _native
except ImportError as error:
    raise ImportError(
        f"tokenmill's native core cannot be imported ({error}). In a source tree, build it with "
        "`make build` or `pip install -e .`; elsewhere run `pip install --force-reinstall "
        "tokenmill`."
    ) from error

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native.after_fork)

__all__ = ["_native"]
