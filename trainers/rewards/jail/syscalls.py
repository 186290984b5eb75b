"""The system calls that a task may make: what pure computing in Python needs, by their numbers on each machine.

Numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of Linux, which arm64 uses. Calls
that only the older machine has (open, stat, dup2 ...) are left out where there is none.
"""

from __future__ import annotations

from typing import NamedTuple

ALLOWED = {
    "x86_64": (
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,  # read write open close *stat poll lseek m* brk rt_sig*
        17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28,  # pread64 pwrite64 readv writev access pipe select yield m*
        32, 33, 35, 39, 60, 63, 73, 74, 75, 76, 77, 78, 79, 80,  # dup nanosleep getpid exit uname flock fsync cwd
        82, 83, 84, 85, 87, 89, 95, 96, 97, 98, 99, 100,  # rename mkdir rmdir creat unlink readlink umask time, usage
        102, 104, 107, 108, 110, 115, 131, 186, 201, 202, 204,  # get*id sigaltstack gettid time futex getaffinity
        217, 218, 228, 229, 230, 231, 232, 233,  # getdents64 set_tid_address clock_* exit_group epoll_*
        257, 258, 262, 263, 264, 267, 269, 270, 271, 273, 274,  # *at pselect6 ppoll robust_list
        281, 290, 291, 292, 293, 316, 318, 332, 334, 439,  # epoll eventfd2 dup3 pipe2 renameat2 getrandom statx rseq
    ),
    "aarch64": (
        17, 19, 20, 21, 22, 23, 24, 32, 34, 35, 38,  # getcwd eventfd2 epoll_* dup dup3 flock mkdirat unlinkat renameat
        45, 46, 48, 49, 56, 57, 59, 61, 62, 63, 64, 65, 66, 67, 68,  # *truncate faccessat chdir openat close pipe2 read
        72, 73, 78, 79, 80, 82, 83, 93, 94, 96, 98, 99, 100, 101,  # pselect6 ppoll *stat fsync exit* futex nanosleep
        113, 114, 115, 123, 124, 132, 134, 135, 139,  # clock_* getaffinity yield sigaltstack rt_sig*
        153, 158, 160, 163, 165, 166, 169, 172, 173, 174, 175, 176, 177, 178, 179,  # times uname usage umask get*id
        214, 215, 216, 222, 226, 227, 233, 276, 278, 291, 293, 439,  # brk m* renameat2 getrandom statx rseq faccessat2
    ),
}  # fmt: skip


class Special(NamedTuple):
    """Calls of which only some uses are allowed. ``architecture`` is the kernel's AUDIT_ARCH word."""

    architecture: int
    ioctl: int
    fcntl: int
    prlimit64: int
    clone: int
    clone3: int


SPECIAL = {
    "x86_64": Special(0xC000003E, 16, 72, 302, 56, 435),
    "aarch64": Special(0xC00000B7, 29, 25, 261, 220, 435),
}
IOCTLS = (0x5401, 0x5451, 0x5450, 0x5421, 0x541B)  # is a terminal? close-on-exec, blocking, bytes waiting
FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 1030)  # duplicates, flags, locks; nothing that sends signals
