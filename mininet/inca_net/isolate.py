"""Runs a function in fresh network, mount and process namespaces, so that nothing of it can stay behind.

The function's process is process 1 of its process namespace: when it ends, however it ends, the kernel ends everything
it started and frees the network with all interfaces. A lock file under the same name refuses a second run; the kernel
drops that lock too when the run is killed, so there are no stale locks.

Works as root, and as an ordinary user where the kernel allows unprivileged user namespaces.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
PR_SET_PDEATHSIG = 1

EXIT_TIMED_OUT = 124
EXIT_LOCKED = 75
# As shells count it: 128 and the signal's number.
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE
OTHER_NAME = "choose another name with --name"
# Between SIGTERM, which lets the function stop its switches in order, and SIGKILL.
GRACE_SECONDS = 10.0

_libc = ctypes.CDLL(None, use_errno=True)


class IsolationError(RuntimeError):
    """The kernel refused a namespace; the message says which call and what is needed."""


class LockedError(RuntimeError):
    """An emulation of this name is running; the message names its process."""


def isolated(
    name: str | None, function: Callable[[], int], time_limit: float | None = None, remedy: str = OTHER_NAME
) -> int:
    """Runs `function` isolated and returns its exit code; without a name no lock is taken. `remedy` says what to do
    about a lock that another run holds.

    Death by a signal becomes 128 + signal, `time_limit` (seconds) ends in `EXIT_TIMED_OUT`. The caller stays in the new
    namespaces, so this is the last thing that it does.
    """
    lock = None if name is None else acquire_lock(name, remedy)
    try:
        unprivileged = os.geteuid() != 0
        _unshare(unprivileged)
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            os._exit(_first_process(function))
        return _wait(child, name or "unnamed", time_limit)
    finally:
        if name is not None and lock is not None:
            release_lock(name, lock)


def acquire_lock(name: str, remedy: str = OTHER_NAME) -> int:
    """Takes the lock of the run called `name`; returns the descriptor that holds it."""
    path = lock_path(name)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 64, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise LockedError(
                f"an emulation named '{name}' is already running (process {holder}); stop it or {remedy}"
            ) from None
        # The run before may have removed the file between our open and our lock.
        if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
            break
        os.close(descriptor)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def release_lock(name: str, descriptor: int) -> None:
    """Gives the lock back and removes its file."""
    lock_path(name).unlink(missing_ok=True)
    os.close(descriptor)


def lock_path(name: str) -> Path:
    """One lock per user and name."""
    return Path(tempfile.gettempdir()) / f"inca-net-{os.geteuid()}-{name}.lock"


def _unshare(unprivileged: bool) -> None:
    flags = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID
    uid, gid = os.geteuid(), os.getegid()
    if unprivileged:
        flags |= CLONE_NEWUSER
    if _libc.unshare(flags) != 0:
        code = ctypes.get_errno()
        need = "unprivileged user namespaces are off here, use sudo" if unprivileged else "root is needed"
        raise IsolationError(f"unshare of network, mount and process namespaces: {os.strerror(code)}: {need}")
    if unprivileged:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def _first_process(function: Callable[[], int]) -> int:
    """Process 1 of the new namespace: no signal has an effect on it without a handler."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        _mount(b"none", b"/", None, MS_REC | MS_PRIVATE)
        # Its own /proc, so that process ids there are the ones it sees; its own /sys for /sys/class/net.
        _mount(b"proc", b"/proc", b"proc", MS_NOSUID_NODEV_NOEXEC)
        _mount(b"sysfs", b"/sys", b"sysfs", MS_NOSUID_NODEV_NOEXEC)
        code = function()
    except KeyboardInterrupt:
        code = 130
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException as error:
        if _follows_interrupt(error):
            code = 130
        elif isinstance(error, BrokenPipeError) and reader_is_gone():
            code = EXIT_BROKEN_PIPE
        else:
            traceback.print_exc()
            code = 1
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = EXIT_BROKEN_PIPE
    sys.stderr.flush()
    return code


def reader_is_gone() -> bool:
    """Whether nobody reads what we print any more, as after `| head`."""
    ends = select.poll()
    ends.register(1, 0)
    return any(event & select.POLLERR for _descriptor, event in ends.poll(0))


def _follows_interrupt(error: BaseException | None) -> bool:
    """Whether what went wrong did so while an interrupted run was cleaned up."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int) -> None:
    if _libc.mount(source, target, kind, ctypes.c_ulong(flags), None) != 0:
        code = ctypes.get_errno()
        raise IsolationError(f"mount of {source.decode()} on {target.decode()}: {os.strerror(code)}")


def _wait(child: int, name: str, time_limit: float | None) -> int:
    """Waits for process 1, hands signals on to it and ends it at the time limit."""

    def forward(number: int, _frame: object) -> None:
        os.kill(child, number)

    # A terminal sends SIGINT to both already.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, forward)
    started = time.monotonic()
    asked = False
    while True:
        pid, status = os.waitpid(child, os.WNOHANG if time_limit is not None else 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            if asked:
                return EXIT_TIMED_OUT
            return code if code >= 0 else 128 - code
        assert time_limit is not None
        over = time.monotonic() - started - time_limit
        if over > 0 and not asked:
            print(f"emulation '{name}': over its limit of {time_limit:.0f} s, stopping it", file=sys.stderr)
            os.kill(child, signal.SIGTERM)
            asked = True
        if over > GRACE_SECONDS:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.05)
