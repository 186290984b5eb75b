"""The system-call filter, run by an interpreter of its program: on every machine it knows, also those not at hand."""

from __future__ import annotations

import platform
import struct

import pytest

from trainers.rewards.jail import kernel
from trainers.rewards.jail.syscalls import ALLOWED, SPECIAL

ALLOW, DENY, NO_SUCH_CALL, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
# What must never be allowed, by its number on each machine.
FORBIDDEN = {
    "x86_64": {
        "socket": 41, "connect": 42, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "ptrace": 101, "mount": 165,
        "chroot": 161, "setuid": 105, "tgkill": 234, "unshare": 272, "bpf": 321, "execveat": 322, "io_uring_setup": 425,
        "process_vm_readv": 310, "pidfd_send_signal": 424, "keyctl": 250, "userfaultfd": 323, "symlink": 88, "link": 86,
        "chmod": 90, "seccomp": 317, "prctl": 157, "setitimer": 38, "perf_event_open": 298, "memfd_create": 319,
    },
    "aarch64": {
        "socket": 198, "connect": 203, "execve": 221, "kill": 129, "ptrace": 117, "mount": 40, "chroot": 51,
        "setuid": 146, "tgkill": 131, "unshare": 97, "bpf": 280, "execveat": 281, "io_uring_setup": 425,
        "process_vm_readv": 270, "pidfd_send_signal": 424, "keyctl": 219, "userfaultfd": 282, "symlinkat": 36,
        "linkat": 37, "fchmodat": 53, "seccomp": 277, "prctl": 167, "setitimer": 103, "perf_event_open": 241,
        "memfd_create": 279,
    },
}  # fmt: skip


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the filter answers to one call."""
    arch = SPECIAL[machine].architecture if architecture is None else architecture
    data = struct.pack("<IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    program, at, value = kernel.filter_program(machine), 0, 0
    while True:
        code, true, false, constant = program[at]
        at += 1
        if code == 0x20:
            [value] = struct.unpack_from("<I", data, constant)
        elif code == 0x06:
            return constant
        else:
            held = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[code]
            at += true if held else false


@pytest.mark.parametrize("machine", ALLOWED)
def test_only_what_is_listed_is_allowed(machine: str) -> None:
    special = SPECIAL[machine]
    allowed = {number for number in range(600) if verdict(machine, number) == ALLOW}
    # With all arguments 0 these are harmless uses: duplicating a descriptor, and asking for one's own limits.
    assert allowed == {*ALLOWED[machine], special.fcntl, special.prlimit64}
    assert not allowed & set(FORBIDDEN[machine].values())
    assert all(verdict(machine, number) == DENY for number in FORBIDDEN[machine].values())


@pytest.mark.parametrize("machine", ALLOWED)
def test_arguments_decide_where_a_call_does_several_things(machine: str) -> None:
    special = SPECIAL[machine]
    assert verdict(machine, special.ioctl, 1, 0x5401) == ALLOW and verdict(machine, special.ioctl, 1, 0x5412) == DENY
    assert verdict(machine, special.fcntl, 1, 3) == ALLOW and verdict(machine, special.fcntl, 1, 8) == DENY
    assert verdict(machine, special.prlimit64, 0) == ALLOW and verdict(machine, special.prlimit64, 1) == DENY
    assert verdict(machine, special.clone, kernel.CLONE_THREAD | 0x100) == ALLOW
    assert verdict(machine, special.clone, 17) == DENY  # SIGCHLD: a new process
    assert verdict(machine, special.clone3) == NO_SUCH_CALL


@pytest.mark.parametrize("machine", ALLOWED)
def test_calls_of_another_architecture_end_the_process(machine: str) -> None:
    assert verdict(machine, 0, architecture=0x40000003) == KILL  # 32-bit x86
    if machine == "x86_64":
        assert verdict(machine, 0x40000000) == DENY and verdict(machine, 0x40000000 + 1) == DENY


def test_no_number_is_listed_twice() -> None:
    for numbers in ALLOWED.values():
        assert len(set(numbers)) == len(numbers)


def test_this_machine_has_a_filter() -> None:
    if platform.machine() not in ALLOWED:
        pytest.skip(f"no filter is known for {platform.machine()}")
    assert kernel.filter_program(platform.machine())
