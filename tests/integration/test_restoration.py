"""Tracked files are seen to differ, and put back, whatever stands in their place; nothing else is touched."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.hardware import CPU_ONLY
from pytest_researchenv.model import Environment, Evidence, PathSource, Repository, Tier, TierSpec, Verdict
from pytest_researchenv.probes.launch import restored
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.provision import changed_paths
from pytest_researchenv.sandbox.protocol import ContainerSpec
from pytest_researchenv.source import fetch


if TYPE_CHECKING:
    from tests.integration.conftest import Workshop


REPORT = 'report /usr/bin/python3 system ""\n'
REPO = "/workspace/tracked"

#: Longer than a name in a plain tar header, and than one component may be, in characters that take two bytes each.
LONG = "/".join(["ü" * 90] * 4)

#: What is done to a tracked file `$F`, in a folder of its own → whether it counts as changed.
ACTIONS = {
    "nothing": (":", False),
    "time": ('touch "$F"', False),
    "same content": ('cp "$F" /copy && rm "$F" && cp /copy "$F"', False),
    "edited": ('echo x >> "$F"', True),
    "same length": ('printf "%s" ORIGINAL | tr A-Z a-z > "$F"', True),
    "deleted": ('rm "$F"', True),
    "execute bit": ('chmod +x "$F"', True),
    "folder": ('rm "$F" && mkdir -p "$F/inner" && touch "$F/inner/x"', True),
    "fifo": ('rm "$F" && mkfifo "$F"', True),
    "link": ('rm "$F" && ln -s /sentinel "$F"', True),
    "link to the same content": ('mv "$F" "$F.real" && ln -s "$F.real" "$F"', True),
    "dangling link": ('rm "$F" && ln -s /nowhere "$F"', True),
    "its folder a link": ('mkdir /outside && mv "$F" /outside/ && rmdir "${F%/*}" && ln -s /outside "${F%/*}"', True),
    "its folder a file": ('rm -r "${F%/*}" && touch "${F%/*}"', True),
    "hard link to another's file": ('ln -f /sentinel "$F"', True),
    "hard link to its own content": ('ln "$F" "${F%/*}/a-copy"', None),
    "sparse": ('truncate -s 300M "$F"', True),
    "another case": ('mv "$F" "${F%/*}/FILE.TXT"', True),
}
#: A container's root cannot make a file that we cannot put back.
IMMUTABLE = "import fcntl, sys; fcntl.ioctl(open(sys.argv[1]), 0x40086602, bytes([16, 0, 0, 0, 0, 0, 0, 0]))"


@pytest.fixture
def tracked(tmp_path: Path) -> Repository:
    """A repository with a file for every action, files of odd names, and something to build."""
    root = tmp_path / "source"
    names = [f"{name}/file.txt" for name in ACTIONS]
    for name in [*names, "same-1", "same-2", f"{LONG}/long.txt", "Case", "case", os.fsdecode(b"not-utf8-\xff\xfe")]:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("ORIGINAL")
    (root / "tracked-link").symlink_to("./same-1")
    (root / "module.c").write_text("int answer(void) { return 42; }\n")
    (root / "Makefile").write_text("module.so: module.c\n\tcc -shared -fPIC -o $@ $<\n")
    for path in root.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000), follow_symlinks=False)
    tier = TierSpec(argv=("make", "-q"), timeout_s=60)
    return Repository("tracked", PathSource(str(root)), tiers={Tier.C1: tier}, folder=str(tmp_path))


def _still_changed(workshop: Workshop, environment: Environment, repository: Repository) -> tuple[str, ...]:
    """What differs once everything is put back, and that nothing outside was written through a link."""
    tree = fetch(repository, cache=workshop.folder / "cache")
    task = ProbeTask(
        environment=environment,
        repository=repository,
        tree=tree,
        sandbox=workshop.engine.sandbox,
        tools=workshop.engine.tools,
        log=len,
        settings={},
        hardware=CPU_ONLY,
    )
    check = "! test -e /sentinel || test $(cat /sentinel) = untouched"
    spec = ContainerSpec(environment.image, argv=("/bin/sh", "-c", check))
    with restored(task, spec) as container:
        assert container.run(timeout_s=60).ok
        with container.get(REPO) as archive:
            assert archive is not None
            return changed_paths(archive, tree)


def test_every_kind_of_change_is_seen_and_undone(workshop: Workshop, tracked: Repository) -> None:
    """Types swapped, links in and out, hard links, sparse files, case: each is seen, for its own file alone."""
    steps = [f"F={shlex.quote(f'{REPO}/{name}/file.txt')}; {action}" for name, (action, _) in ACTIONS.items()]
    script = "\n".join([REPORT, "echo untouched > /sentinel", *steps])

    environment = workshop.build(tracked, script)

    expected = {f"{name}/file.txt" for name, (_, changed) in ACTIONS.items() if changed}
    # Of a file with two names the engine sends one as a link to the other, whose content is not tracked.
    either = {f"{name}/file.txt" for name, (_, changed) in ACTIONS.items() if changed is None}
    assert set(environment.changed) - either == expected
    assert _still_changed(workshop, environment, tracked) == ()


def test_odd_names_are_no_changes_and_their_changes_are_seen(workshop: Workshop, tracked: Repository) -> None:
    """Long names, names that are no UTF-8 and names that differ by case only come through the tar stream."""
    untouched = workshop.build(tracked, REPORT + "ln -f same-1 same-2")
    touched = workshop.build(tracked, REPORT + r"for f in */*/*/*/long.txt case not-utf8-*; do echo x > $f; done")

    assert untouched.changed == ()
    # Nothing that is recorded can hold the third name; it is put back all the same.
    assert set(touched.changed) == {f"{LONG}/long.txt", "case"}
    assert _still_changed(workshop, touched, tracked) == ()


@pytest.mark.parametrize(
    "script",
    ["mv /workspace /elsewhere && ln -s /elsewhere /workspace", "rm -rf /workspace && ln -s /nowhere /workspace"],
    ids=["link", "dangling"],
)
def test_a_link_above_the_repository_leaves_nothing_unchanged(
    workshop: Workshop, tracked: Repository, script: str
) -> None:
    """Through the link the tree looks intact; what is probed is a real folder with all of it."""
    environment = workshop.build(tracked, REPORT + "cd /\n" + script)

    files = fetch(tracked, cache=workshop.folder / "cache").files
    assert environment.changed == tuple(name for name in files if not name.startswith("not-utf8"))
    assert _still_changed(workshop, environment, tracked) == ()


def test_no_file_can_be_made_immutable(workshop: Workshop, tracked: Repository) -> None:
    """The container lacks the capability, so that every file can be put back."""
    command = f"python3 -c {shlex.quote(IMMUTABLE)} same-1"

    environment = workshop.build(tracked, f"{REPORT}! {command} && echo x > same-1")

    assert environment.changed == ("same-1",)
    assert _still_changed(workshop, environment, tracked) == ()


@pytest.mark.parametrize(
    ("script", "verdict"),
    [
        ("make && echo x > case", Verdict.PASSED),
        ("make && sed -i s/42/43/ module.c && touch -d '+1 hour' module.c", Verdict.PASSED),
        # The check can fail: this is what make makes of times that moved.
        ("make && touch -d '+1 hour' module.c", Verdict.FAILED),
        ("true", Verdict.FAILED),
    ],
    ids=["another file changed", "source changed", "time moved", "not built"],
)
def test_what_was_built_is_not_built_again(
    workshop: Workshop, tracked: Repository, script: str, verdict: Verdict
) -> None:
    """Unchanged files keep their times, changed ones get their original ones, and build output stays."""
    environment = workshop.build(tracked, REPORT + script)

    assert workshop.judge(environment, tracked, Tier.C1).verdict is verdict


def test_times_are_those_of_the_pinned_tree(workshop: Workshop, tracked: Repository) -> None:
    """For files that were put back, and for those that were not."""
    show = "import os; print([int(os.stat(f).st_mtime) for f in ('case', 'Case')])"
    tier = TierSpec(
        argv=("{python}", "-c", show), timeout_s=60, evidence=Evidence(output=(r"^\[1600000000, 1600000000\]$",))
    )
    repository = replace(tracked, tiers={Tier.C1: tier})

    environment = workshop.build(repository, REPORT + "echo x > case")

    assert environment.changed == ("case",)
    assert workshop.judge(environment, repository, Tier.C1).verdict is Verdict.PASSED


@pytest.mark.slow
def test_a_million_untracked_files_are_no_hindrance(workshop: Workshop, tracked: Repository) -> None:
    """They are walked past, one by one, and the tree among them is restored."""
    many = (
        "import os\nfor i in range(1000):\n    os.mkdir(f'many-{i}')\n    for j in range(1000):\n"
        "        os.close(os.open(f'many-{i}/{j}', os.O_CREAT))"
    )
    script = f"{REPORT}echo x > case; make; python3 -c {shlex.quote(many)}"

    environment = workshop.build(tracked, script, timeout_s=600)

    assert environment.changed == ("case",)
    assert workshop.judge(environment, tracked, Tier.C1).verdict is Verdict.PASSED
