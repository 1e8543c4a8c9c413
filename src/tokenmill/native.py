"""The one place that imports the native core, and says how to build it when it is not there."""

try:
    from tokenmill import _native
except ImportError as error:
    raise ImportError(
        f"tokenmill's native core cannot be imported ({error}). In a source tree, build it with "
        "`make build` or `pip install -e .`; elsewhere run `pip install --force-reinstall "
        "tokenmill`."
    ) from error

__all__ = ["_native"]
