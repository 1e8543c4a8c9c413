"""The address of a Ray cluster → a connection. Ray is an extra and imported when used."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from tokenmill.errors import ClusterError, import_package

LOCAL = "local"
RAY = "ray"
ENGINES = (LOCAL, RAY)  # of counting
_CONNECT_SECONDS = 10.0
_NICENESS = "RAY_worker_niceness"
_CLIENT = "ray://"
_RAY = ("ray", "the engine ray")  # the package, and what needs it


def check_options(options: Mapping[str, Any]) -> None:
    """Raise ClusterError for an address without Ray."""
    if options["ray_address"] is not None and options["engine"] != RAY:
        raise ClusterError(f"--ray-address needs --engine ray, got engine {options['engine']!r}")


def check_engine(options: Mapping[str, Any]) -> None:
    """Raise if the engine is not installed or does not answer."""
    if options["engine"] == RAY:
        import_package(*_RAY)
        if (options["ray_address"] or "").startswith(_CLIENT):
            raise _no_client(options["ray_address"])
        _check_connection(options["ray_address"])


@contextmanager
def connected(
    address: str | None, processors: int, running: Callable[[], Iterable[Any]]
) -> Iterator[Any]:
    """Connect to a cluster. Without an address, start one on this machine, and stop it at the end.

    A program that is already connected stays connected, and its `running` tasks are cancelled.
    """
    ray = import_package(*_RAY)
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray, address, processors)
    try:
        yield ray
    finally:
        if is_ours:
            # Tasks end with their driver. Ray 2.60 can abort if they are cancelled meanwhile.
            ray.shutdown()
        else:
            for reference in running():
                with suppress(Exception):  # the task has ended
                    ray.cancel(reference, force=True)


def _connect(ray: Any, address: str | None, processors: int) -> None:
    _check_connection(address)
    # Without "local", Ray uses an address of the environment or any cluster of this machine.
    own = {"num_cpus": processors, "include_dashboard": False} if address is None else {}
    # The workers of a new cluster get the priority of this process. Ray's default is lower than
    # that of its own processes, which costs about 3 % of a run on two cores.
    sets_niceness = address is None and _NICENESS not in os.environ
    if sets_niceness:
        os.environ[_NICENESS] = "0"
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)  # Ray replaces it
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level="error", **own)
    except BaseException as error:  # after an interrupt, the program may continue
        ray.shutdown()
        if isinstance(error, Exception):  # Ray raises many types
            raise _no_cluster(address, error) from None
        raise
    finally:
        if is_main and handler is not None:
            signal.signal(signal.SIGTERM, handler)
        if sets_niceness:
            os.environ.pop(_NICENESS, None)


def _check_connection(address: str | None) -> None:
    """Raise if no server listens at an address. Ray itself needs minutes to report it."""
    found = re.fullmatch(r"(?:ray://)?([^/]+):(\d+)", address or "")
    if found is None:
        return
    try:
        socket.create_connection((found[1], int(found[2])), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str | None, error: Exception) -> ClusterError:
    why = str(error).strip() or type(error).__name__
    if address is None:
        return ClusterError(f"cannot start Ray on this machine: {why}")
    return ClusterError(
        f"no Ray cluster answers at {address!r} ({why}); start one with ray start --head, or leave "
        "out --ray-address to start one on this machine; a cluster with tokens needs "
        "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN or ~/.ray/auth_token"
    )


def refuse_client(ray: Any) -> None:
    """Raise for Ray Client, which does not transfer the progress of tasks."""
    if ray.util.client.ray.is_connected():
        raise _no_client(f"{_CLIENT}…")


def _no_client(address: str | None) -> ClusterError:
    return ClusterError(
        f"tokenize does not work through Ray Client ({address}); run it on a machine of the "
        "cluster with --ray-address auto, or use ray job submit"
    )


def processors(ray: Any) -> int:
    """The number of CPUs that the cluster has now."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def cannot_run(error: Any) -> str:
    """The error of a task that could not start, in one line of Ray's text."""
    why = f"{type(error.cause).__name__}: {error.cause}".strip().splitlines()[-1]
    return (
        f"a task cannot run on the cluster: {why}; all machines need the same versions of "
        "Python and tokenmill"
    )


def enter(folder: str) -> None:
    """Change to the working directory of the driver, in a task."""
    try:
        os.chdir(folder)
    except OSError as error:
        raise ClusterError(
            f"{error} on {os.uname().nodename}: all machines of the cluster need the same file "
            "system, with the inputs and the output in it"
        ) from None
