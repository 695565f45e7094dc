"""The filter of system calls: who gets it, and what it lets through."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_researchenv.sandbox._seccomp import filter_options


DOCKER: dict[str, Any] = {"Arch": "amd64", "Components": [{"Name": "Engine"}, {"Name": "containerd"}]}
DEFAULT = {"SecurityOptions": ["name=apparmor", "name=seccomp,profile=default"]}


def _profile(architecture: str = "amd64") -> dict[str, Any]:
    (option,) = filter_options({**DOCKER, "Arch": architecture}, DEFAULT)
    return dict(json.loads(option.removeprefix("seccomp=")))


@pytest.mark.parametrize(
    ("version", "info"),
    [
        ({**DOCKER, "Components": [{"Name": "Podman Engine"}]}, DEFAULT),
        ({**DOCKER, "Components": None}, DEFAULT),
        ({**DOCKER, "Arch": "s390x"}, DEFAULT),
        (DOCKER, {"SecurityOptions": ["name=seccomp,profile=/etc/docker/strict.json"]}),
        (DOCKER, {"SecurityOptions": ["name=apparmor"]}),
        (DOCKER, {"SecurityOptions": None}),
        ({}, {}),
    ],
    ids=["podman", "nobody", "other machine", "chosen", "no filter", "nothing", "silent"],
)
def test_only_dockers_own_default_is_replaced(version: dict[str, Any], info: dict[str, Any]) -> None:
    """Others take no filter by that name, or have one that somebody chose."""
    assert filter_options(version, info) == []


@pytest.mark.parametrize("name", ["default", "builtin"])
def test_dockers_default_is_replaced(name: str) -> None:
    """By either of its names."""
    assert len(filter_options(DOCKER, {"SecurityOptions": [f"name=seccomp,profile={name}"]})) == 1


def test_what_is_not_named_is_refused() -> None:
    """What leads out of a container is on no list, and what every program does is."""
    profile = _profile()
    allowed = {name for rule in profile["syscalls"] if "args" not in rule for name in rule["names"]}

    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert len(allowed) > 350
    assert {"read", "openat", "execve", "mmap", "futex", "epoll_wait", "rseq", "ptrace"} <= allowed
    assert (
        not {
            *("mount", "umount2", "unshare", "setns", "pivot_root", "chroot", "open_by_handle_at", "move_mount"),
            *("init_module", "finit_module", "kexec_load", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup"),
            *(
                "keyctl",
                "add_key",
                "syslog",
                "clock_settime",
                "settimeofday",
                "sethostname",
                "iopl",
                "quotactl",
                "acct",
            ),
            *("socket", "socketcall", "clone", "personality", "reboot", "swapon"),
        }
        & allowed
    )


def test_a_new_kind_of_thread_is_said_not_to_be_there() -> None:
    """So that the C library goes on with the old one: with another error no thread begins."""
    (rule,) = [rule for rule in _profile()["syscalls"] if rule["names"] == ["clone3"]]

    assert (rule["action"], rule["errnoRet"]) == ("SCMP_ACT_ERRNO", 38)


def test_only_the_usual_kinds_of_sockets_can_be_made() -> None:
    """Neither those to the machine below (40) nor those to the kernel's ciphers (38)."""
    values = [rule["args"][0]["value"] for rule in _profile()["syscalls"] if rule["names"] == ["socket"]]

    assert values == [1, 2, 10, 16, 17]


def _passes(profile: dict[str, Any], name: str, *arguments: int) -> bool:
    """Whether the filter lets a call through: one rule must hold, and all its conditions."""

    def holds(condition: dict[str, Any]) -> bool:
        value = arguments[condition["index"]]
        if condition["op"] == "SCMP_CMP_EQ":
            return bool(value == condition["value"])
        return bool(value & condition["value"] == condition["valueTwo"])

    rules = [rule for rule in profile["syscalls"] if name in rule["names"]]
    return any(all(map(holds, rule.get("args", []))) for rule in rules)


@pytest.mark.parametrize(
    ("name", "arguments", "passes"),
    [
        ("setsockopt", (3, 1, 2), True),
        ("setsockopt", (3, 1, 4), True),
        ("setsockopt", (3, 1, 25), True),
        ("setsockopt", (3, 6, 1), True),
        ("setsockopt", (3, 6, 5), True),
        ("setsockopt", (3, 1, 5), False),
        ("setsockopt", (3, 1 | 1 << 40, 5), False),
        ("setsockopt", (3, 1, 5 | 1 << 32), False),
        ("sendto", (3, 0, 0, 0x4000), True),
        ("sendto", (3, 0, 0, 0x4004), False),
        ("sendmsg", (3, 0, 0), True),
        ("sendmsg", (3, 0, 4), False),
        ("sendmmsg", (3, 0, 1, 4), False),
        ("clone", (0x3D0F00,), True),
        ("clone", (0x3D0F00 | 0x10000000,), False),
        ("socket", (2, 1, 0), True),
        ("socket", (40, 1, 0), False),
        ("mount", (0, 0, 0, 0, 0), False),
    ],
)
def test_arguments_decide(name: str, arguments: tuple[int, ...], passes: bool) -> None:  # noqa: FBT001 - a parameter
    """Namespaces, kinds of sockets, and ways past the routes, whatever stands in the bits that the kernel ignores."""
    assert _passes(_profile(), name, *arguments) is passes


def test_programs_of_smaller_machines_are_filtered_as_well() -> None:
    """On each engine, those that its kernel can run."""
    maps = [_profile(name)["archMap"][0] for name in ("amd64", "arm64")]

    assert [one["architecture"] for one in maps] == ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]
    assert maps[0]["subArchitectures"] == ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]
