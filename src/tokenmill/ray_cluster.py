"""An address → a Ray cluster; ray is an extra, and imported when it is asked for."""

from __future__ import annotations

import importlib
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.errors import ClusterError, MissingExtraError

LOCAL = "local"
RAY = "ray"
ENGINES = (LOCAL, RAY)
_CONNECT_SECONDS = 10.0
_NICENESS = "RAY_worker_niceness"
_CLIENT = "ray://"


@dataclass(frozen=True, slots=True)
class Engine:
    """Who does the work: this machine, or a Ray cluster that runs at an address."""

    name: str = LOCAL
    address: str | None = None

    def check(self) -> None:
        """Raises if there is no such engine."""
        if self.name not in ENGINES:
            raise ClusterError(f"engine must be one of {', '.join(ENGINES)}, not {self.name!r}")
        if self.address is not None and self.name != RAY:
            raise ClusterError(f"--ray-address needs --engine ray, and the engine is {self.name!r}")

    def refuse_absence(self) -> None:
        """Raises, before anything is written, if the engine is not installed or does not answer."""
        if self.name == RAY:
            _import_ray()
            if (self.address or "").startswith(_CLIENT):
                raise _no_client(self.address)
            _refuse_silence(self.address)


@contextmanager
def connected(
    address: str | None, processors: int, running: Callable[[], Iterable[Any]]
) -> Iterator[Any]:
    """Ray, connected; without an address, to a cluster of this machine that ends with it.

    A program that is connected already stays so. Behind it what is `running` ends, soon.
    """
    ray = _import_ray()
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray, address, processors)
    try:
        yield ray
    finally:
        if is_ours:
            # Its tasks end with a driver. Ray (2.60) can abort where they are cancelled just then.
            ray.shutdown()
        else:
            for reference in running():
                with suppress(Exception):  # whatever it is, it is over
                    ray.cancel(reference, force=True)


def _connect(ray: Any, address: str | None, processors: int) -> None:
    _refuse_silence(address)
    # Without an address Ray would take one from the environment, or a cluster that happens to run.
    own = {"num_cpus": processors, "include_dashboard": False} if address is None else {}
    priority = _not_nice() if address is None else nullcontext()
    try:
        with _keeping_sigterm(), priority:
            ray.init(address=address or "local", log_to_driver=False, logging_level="error", **own)
    except Exception as error:  # which Ray raises plainly, too
        ray.shutdown()
        raise _no_cluster(address, error) from None
    except BaseException:  # an interrupt leaves nothing half connected to who goes on
        ray.shutdown()
        raise


@contextmanager
def _keeping_sigterm() -> Iterator[None]:
    """Ray answers SIGTERM in a way of its own, and the program has one already."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if is_main and before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _not_nice() -> Iterator[None]:
    """Processes of a cluster that starts now work at our own priority.

    Ray would make them nicer than its own, each of which then takes a processor from them whenever
    it wakes: about 3 % of a run on two.
    """
    before = os.environ.get(_NICENESS)
    os.environ.setdefault(_NICENESS, "0")
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_NICENESS, None)


def _refuse_silence(address: str | None) -> None:
    """Raises if nobody listens at an address, which Ray would find out in minutes."""
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
        return ClusterError(f"Ray cannot be started on this machine: {why}")
    return ClusterError(
        f"no Ray cluster answers at {address!r} ({why}); start one with ray start --head, or leave "
        "--ray-address out to have one on this machine; one that asks for a token needs "
        "RAY_AUTH_MODE=token and the token (RAY_AUTH_TOKEN, or ~/.ray/auth_token)"
    )


def refuse_client(ray: Any) -> None:
    """Raises if we are no part of the cluster: what tasks say as they go does not come through."""
    if ray.util.client.ray.is_connected():
        raise _no_client(f"{_CLIENT}…")


def _no_client(address: str | None) -> ClusterError:
    return ClusterError(
        f"tokenize does not work through Ray Client ({address}); run it on a machine of the "
        "cluster with --ray-address auto, or give it to ray job submit"
    )


def processors(ray: Any) -> int:
    """How many the cluster has now."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def cannot_run(error: Any) -> str:
    """What a task says that could not begin, of which Ray tells a page."""
    why = f"{type(error.cause).__name__}: {error.cause}".strip().splitlines()[-1]
    return (
        f"a task cannot run on the cluster: {why}; do all machines have the same versions of "
        "Python and tokenmill?"
    )


def enter(folder: str) -> None:
    """In a task: goes to the folder where the names of the caller's files begin."""
    try:
        os.chdir(folder)
    except OSError as error:
        raise ClusterError(
            f"{error} on {os.uname().nodename}: all machines of the cluster need the same file "
            "system, with the inputs and the output in it"
        ) from None


def here() -> str:
    """Where the names of this program's files begin."""
    return str(Path.cwd())


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtraError(
            'the engine ray needs the package ray: pip install "tokenmill[ray]"'
        ) from error
