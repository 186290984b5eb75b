"""Takes rights away from the sandbox, step by step, and keeps account of what the host granted.

Two walls stand for each thing that matters, so that a host which forbids one still has the other:
files behind a root folder of their own (mount namespace) and Landlock; the network behind an empty network namespace
and seccomp; processes behind a process namespace and seccomp. Limits and the loss of privileges are always there.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from typing import Any

from . import kernel

SCRATCH_BYTES = 64 << 20
_NAMESPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
_INSIDE_ID = 1000
_NOBODY = 65534


class Isolation:
    """The rights of one worker: :meth:`enclose` in the keeper, :meth:`confine` in its child, :meth:`limit` per task."""

    def __init__(self, folder: str, without: frozenset[str], packages: str | None = None) -> None:
        self.folder = folder
        self.without = without
        self.scratch = folder
        self.walls: dict[str, list[str]] = {"files": [], "network": [], "processes": []}
        self.lacks: list[str] = []
        self.seccomp_works = False
        self._readable = [path for path in sys.path if os.path.isdir(path)]
        if packages is not None:
            self._readable += [os.path.realpath(entry.path) for entry in os.scandir(packages)]
        # Opened while they can be: the interpreter may live in a folder that is closed to the later user.
        self._readable_handles = [os.open(path, os.O_PATH) for path in self._readable]
        self._folder_handle = os.open(folder, os.O_PATH)
        self._inside_id: int | None = None

    def enclose(self) -> None:
        """Namespaces and a root folder of the sandbox's own. The caller's next child is the first in them."""
        try:
            self._unshare()
        except OSError as error:
            self.lacks.append(f"The host refuses namespaces ({error.strerror or error}).")
        else:
            self.walls["network"].append("network namespace")
            self.walls["processes"].append("process namespace")
            try:
                self._build_root()
                self.walls["files"].append("mount namespace")
            except OSError as error:
                kernel.unmount(self.folder)
                self.lacks.append(f"The host refuses a root folder for the sandbox ({error.strerror or error}).")
        if self.scratch == self.folder:
            self.lacks.append("The scratch folder is an ordinary one: the sum of its files has no limit.")
            self._give_folder_away()

    def _unshare(self) -> None:
        if "namespaces" in self.without:
            raise OSError(1, "switched off")
        if os.getuid() == 0:
            try:
                kernel.unshare(_NAMESPACES)
                return
            except OSError:  # root in a container without CAP_SYS_ADMIN: go on as an ordinary user
                self._give_folder_away()
                self._leave_root()
                kernel.dumpable()
        user, group = os.getuid(), os.getgid()
        kernel.unshare(kernel.CLONE_NEWUSER | _NAMESPACES)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{_INSIDE_ID} {user} 1"),
            ("gid_map", f"{_INSIDE_ID} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        self._inside_id = _INSIDE_ID

    def _build_root(self) -> None:
        """A read-only root with the standard library, two devices and a scratch folder of limited size."""
        folder, quiet = self.folder, kernel.MS_NOSUID | kernel.MS_NODEV
        kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("tmpfs", folder, "tmpfs", quiet, "size=1m,mode=755")
        covers: list[str] = []
        for path in self._readable:
            target = folder + path
            if os.path.exists(target):  # inside one that is bound already
                continue
            _make_place(path, target)
            kernel.bind_read_only(path, target)
            for packages in (f"{target}/site-packages", f"{target}/dist-packages"):
                if os.path.isdir(packages):
                    kernel.mount("tmpfs", packages, "tmpfs", quiet, "size=256k,mode=755")
                    covers.append(packages)
        for packages in covers:
            kernel.mount(None, packages, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | quiet)
        os.mkdir(f"{folder}/dev")
        for device in ("/dev/null", "/dev/urandom"):
            with open(folder + device, "w"):
                pass
            kernel.bind_read_only(device, folder + device)
        os.mkdir(f"{folder}/scratch")
        owner = self._outside_id() if self._inside_id is None else self._inside_id
        options = f"size={SCRATCH_BYTES},nr_inodes=4096,mode=700,uid={owner},gid={owner}"
        kernel.mount("tmpfs", f"{folder}/scratch", "tmpfs", quiet | kernel.MS_NOEXEC, options)
        kernel.mount(None, folder, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | quiet)
        kernel.pivot_root_here(folder)
        self.scratch = "/scratch"

    def confine(self) -> None:
        """Privileges go, for good; then only the standard library can be read and only the scratch folder written."""
        scratch = self._folder_handle if self.scratch == self.folder else os.open(self.scratch, os.O_PATH)
        self._leave_root()
        os.fchdir(scratch)
        os.umask(0o077)
        kernel.drop_capabilities()
        kernel.no_new_privileges()
        kernel.not_dumpable()
        kernel.die_with_parent()
        try:
            if "landlock" in self.without:
                raise OSError(1, "switched off")
            devices = [os.open(path, os.O_PATH) for path in ("/dev/null", "/dev/urandom") if os.path.exists(path)]
            version = kernel.landlock([*self._readable_handles, *devices], [scratch])
            for handle in devices:
                os.close(handle)
            self.walls["files"].append(f"Landlock {version}")
        except OSError as error:
            self.lacks.append(f"The host has no Landlock ({error.strerror or error}).")
        for handle in {scratch, self._folder_handle, *self._readable_handles}:
            os.close(handle)
        for name, value in (("CORE", 0), ("NOFILE", 64), ("FSIZE", 16 << 20), ("MEMLOCK", 0), ("MSGQUEUE", 0)):
            _limit(getattr(resource, f"RLIMIT_{name}"), value)

    def limit(self, memory: int, seconds: float) -> None:
        """The limits of one task, taken by the task's own process before any code of a user runs."""
        _limit(resource.RLIMIT_AS, memory)
        _limit(resource.RLIMIT_NPROC, 32)
        cpu = int(seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
        try:
            if "seccomp" in self.without:
                raise OSError(1, "switched off")
            kernel.seccomp()
            self.seccomp_works = True
        except OSError as error:
            self.lacks.append(f"System calls are not filtered ({error.strerror or error}).")

    def report(self, tried: dict[str, bool], seccomp_works: bool, lacks: list[str]) -> dict[str, Any]:
        """What holds on this host. ``tried``: attempts at escape and whether they came through."""
        if seccomp_works:
            self.walls["network"].append("seccomp")
            self.walls["processes"].append("seccomp")
        self.lacks = list(dict.fromkeys([*self.lacks, *lacks]))
        holds = {
            "files": bool(self.walls["files"]) and not (tried["read"] or tried["write"] or tried["proc"]),
            "network": bool(self.walls["network"]) and not tried["connect"],
            "processes": bool(self.walls["processes"]),
        }
        for what, held in holds.items():
            if not held:
                self.lacks.append(f"Nothing keeps the code of users from {_DANGER[what]}.")
        return {
            "sufficient": all(holds.values()),
            "holds": holds,
            "walls": self.walls,
            "lacks": self.lacks,
            "user_id": os.getuid(),
            "scratch_bytes": SCRATCH_BYTES if self.scratch != self.folder else None,
        }

    def _outside_id(self) -> int:
        """A user id that nobody has, one per worker, so that limits by user count this worker alone."""
        return 2_000_000_000 + _KEEPER % 100_000_000

    def _give_folder_away(self) -> None:
        if os.getuid() == 0:
            with contextlib.suppress(OSError):  # without CAP_CHOWN the worker stays root, too: see _leave_root
                os.chown(self.folder, self._outside_id(), self._outside_id())

    def _leave_root(self) -> None:
        """Become a user that owns nothing. Where that is not allowed, root goes on without any capability."""
        if os.getuid() != 0:
            return
        with contextlib.suppress(OSError):
            os.setgroups([])
        for identity in (self._outside_id(), _NOBODY):  # some containers map the first 65,536 ids only
            try:
                os.setresgid(identity, identity, identity)
                os.setresuid(identity, identity, identity)
                return
            except OSError:
                continue
        self.lacks.append("The host does not let the sandbox change its user: it runs as root without capabilities.")


_KEEPER = os.getpid()
_DANGER = {
    "files": "reading or writing files outside of its scratch folder",
    "network": "using the network",
    "processes": "starting processes that outlive it",
}


def _make_place(path: str, target: str) -> None:
    """An empty folder or file at ``target``, to bind ``path`` on."""
    if os.path.isdir(path):
        os.makedirs(target)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w"):
        pass


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))
