"""Become another program that ends when the launcher does, even when the launcher is killed outright.

Run as ``python -I -S child.py PARENT SIGNAL USER PROGRAM ARGS...``; PARENT is the launcher's process id, SIGNAL what
the kernel sends once it is gone, USER a system user to become first, or ``-``. A program of its own, and not a
``preexec_fn``, because Python code between fork and exec may hang in a process that has threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    parent, number, user, *command = arguments
    if user != "-":
        _become(user)
    if sys.platform == "linux":
        # After the change of user, which clears it.
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit(1)
    # The launcher's own choices must not be inherited: an ignored SIGINT would stay ignored.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(each, signal.SIG_DFL)
    os.execv(command[0], command)


def _become(user: str) -> None:
    import pwd

    entry = pwd.getpwnam(user)
    os.initgroups(user, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    os.environ.update(HOME="/", USER=user, LOGNAME=user)


if __name__ == "__main__":
    main(sys.argv[1:])
