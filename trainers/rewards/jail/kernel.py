"""The kernel's isolation calls, by ctypes: namespaces, mounts, capabilities, Landlock and seccomp.

Each function raises ``OSError`` when the kernel refuses; none of them decides what to do then.
"""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import struct

from .syscalls import ALLOWED, FCNTLS, IOCTLS, SPECIAL

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
CLONE_THREAD = 0x00010000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_PRIVATE, MS_RELATIME = 1024, 2048, 4096, 16384, 1 << 18, 1 << 21
_MNT_DETACH = 2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPSET = {"x86_64": 126, "aarch64": 91}

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(what: str, number: int | None, *arguments: object) -> int:
    if number is None:
        raise OSError(38, f"{what}: its number is not known on {platform.machine()}")
    return _checked(_libc.syscall(ctypes.c_long(number), *arguments), what)


def unshare(flags: int) -> None:
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if value is None else os.fsencode(value) for value in (source, target, kind)]
    _checked(_libc.mount(*encoded, ctypes.c_ulong(flags), data.encode() if data else None), f"mount {target}")


def bind_read_only(source: str, target: str) -> None:
    """Bind ``source`` on ``target`` without the right to write, keeping the flags the kernel has locked."""
    mount(source, target, None, MS_BIND)
    present = os.statvfs(target).f_flag
    kept = present & (MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME)
    kept |= MS_RELATIME if present & 4096 else 0
    mount(None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | kept)


def unmount(path: str) -> None:
    """Detach whatever is mounted on ``path``, mounts below it included; nothing mounted is fine."""
    _libc.umount2(os.fsencode(path), _MNT_DETACH)


def pivot_root_here(new_root: str) -> None:
    """Make ``new_root`` (a mount point) the root folder, and let go of the old one."""
    os.chdir(new_root)
    _syscall("pivot_root", _PIVOT_ROOT.get(platform.machine()), b".", b".")
    _checked(_libc.umount2(b".", _MNT_DETACH), "umount of the old root")
    os.chdir("/")


def prctl(option: int, value: int, what: str) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), what)


def die_with_parent() -> None:
    prctl(_PR_SET_PDEATHSIG, 9, "prctl(PDEATHSIG)")


def no_new_privileges() -> None:
    prctl(_PR_SET_NO_NEW_PRIVS, 1, "prctl(NO_NEW_PRIVS)")


def not_dumpable() -> None:
    """Close /proc/<pid> of this process to others of the same user."""
    prctl(_PR_SET_DUMPABLE, 0, "prctl(DUMPABLE)")


def dumpable() -> None:
    """Open /proc/self again, which a change of user has closed (the id maps are written there)."""
    prctl(_PR_SET_DUMPABLE, 1, "prctl(DUMPABLE)")


def drop_capabilities() -> None:
    """Give up every capability, also those that a later exec could bring back."""
    for capability in range(64):
        try:
            prctl(_PR_CAPBSET_DROP, capability, "prctl(CAPBSET_DROP)")
        except OSError:  # past the last capability, or already without the right to change the set
            continue
    header = struct.pack("=II", 0x20080522, 0)
    _syscall("capset", _CAPSET.get(platform.machine()), header, b"\0" * 24)


# Landlock (Linux 5.13): https://docs.kernel.org/userspace-api/landlock.html
_READ = 1 << 2 | 1 << 3  # READ_FILE, READ_DIR
_WRITE = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 13 | 1 << 14  # files and folders, no devices, no sockets


def landlock_version() -> int:
    return _syscall("landlock", _LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))


def landlock(readable: list[int], writable: list[int]) -> int:
    """Confine this process to what lies under two lists of open paths, folders or files.

    Returns Landlock's version; from version 4 on it also cuts TCP off.
    """
    version = landlock_version()
    handled = (1 << (13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16)) - 1
    attributes = struct.pack("=QQQ", handled, 3, 3)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = _syscall("landlock", _LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        for path, rights in [(path, _READ) for path in readable] + [(path, _READ | _WRITE) for path in writable]:
            # A rule on something that is no folder may only carry the rights of files.
            granted = rights if stat.S_ISDIR(os.fstat(path).st_mode) else rights & (1 << 1 | 1 << 2 | 1 << 14)
            rule = struct.pack("=Qi", granted & handled, path)
            _syscall("landlock", _LANDLOCK_ADD, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
        _syscall("landlock", _LANDLOCK_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return version


# seccomp: what syscalls.py lists; all else answers EPERM.
_ENOSYS, _EPERM = 38, 1
_LOAD, _EQUAL, _GREATER_EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000


def filter_program(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter as classic BPF: (code, jump if true, jump if false, constant)."""
    special = SPECIAL[machine]
    lines = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, special.architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if machine == "x86_64":  # the x32 twins of all calls
        lines += [(_GREATER_EQUAL, 0, 1, 0x40000000), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    for number in ALLOWED[machine]:
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    # The argument that decides, and its values; prlimit64 on itself alone.
    for number, argument, values in (
        (special.ioctl, 1, IOCTLS),
        (special.fcntl, 1, FCNTLS),
        (special.prlimit64, 0, (0,)),
    ):
        lines += [(_EQUAL, 0, 2 + 2 * len(values), number), (_LOAD, 0, 0, 16 + 8 * argument)]
        for value in values:
            lines += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
        lines += [(_RETURN, 0, 0, _ERRNO | _EPERM)]
    lines += [(_EQUAL, 0, 4, special.clone), (_LOAD, 0, 0, 16)]
    lines += [(_ANY_BIT, 0, 1, CLONE_THREAD), (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    # glibc tries clone3 first, whose flags a filter cannot see, and falls back to clone on ENOSYS.
    lines += [(_EQUAL, 0, 1, special.clone3), (_RETURN, 0, 0, _ERRNO | _ENOSYS), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    return lines


def seccomp() -> None:
    """Allow this process only the system calls of pure computing: no socket, no new process, no exec, no signals."""
    machine = platform.machine()
    if machine not in ALLOWED:
        raise OSError(38, f"seccomp: no filter is known for {machine}")
    code = b"".join(struct.pack("=HBBI", *line) for line in filter_program(machine))
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer)))
    pointer = ctypes.c_ulong(ctypes.addressof(header))
    _checked(_libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(2), pointer, 0, 0), "seccomp")
