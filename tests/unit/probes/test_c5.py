"""C5: claims against observations, over a fake engine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.hardware import Accelerator, Hardware
from pytest_researchenv.model import (
    NO_SELF_REPORT,
    Cause,
    Finding,
    FindingKind,
    Outcome,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.probes import c5
from pytest_researchenv.probes.claimed import false_version, version_word
from pytest_researchenv.sandbox.fake import FakeFiles, FakeTimeoutError, Folder, Link
from tests.unit.probes.claimworld import PYTHON, World, on_devices, torch


CLAIMS = Path(c5.__file__).parent / "inside" / "claims.py"


def texts(result: TierResult, name: str) -> str:
    """A list of the evidence in one line."""
    value = result.evidence[name]
    assert isinstance(value, list)
    return " | ".join(value)


# --- the report -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "cause"),
    [(NO_SELF_REPORT, Cause.NO_REPORT), ("the self-report is a FIFO, not a regular file", Cause.INVALID_REPORT)],
)
def test_without_a_usable_report_the_tier_fails_and_says_so(problem: str, cause: Cause) -> None:
    """Missing and invalid reports are failures with their reason; never an error, never a pass."""
    result = World().judge(problem=problem)

    assert (result.verdict, result.cause) == (Verdict.FAILED, cause)
    assert result.reason.startswith(problem)


def test_null_is_never_a_hallucination() -> None:
    """A report that knows nothing claims nothing, and asks nothing of the environment."""
    result = World(files={}).judge(python_path=None)

    assert (result.verdict, result.findings) == (Verdict.PASSED, ())


def test_an_honest_report_passes_and_every_claim_is_recorded() -> None:
    """Path and versions hold; what the CPU cannot show is inconclusive, and the result says that it is emulated."""
    result = World().judge(python_version="3.11.2", torch_version="2.13.0", cuda_available=False, gpu_count=0)

    assert (result.verdict, result.cause, result.findings) == (Verdict.PASSED, Cause.NONE, ())
    assert result.emulated
    assert "torch_version" in texts(result, "holds")
    assert "gpu_count: claimed 0; the CPU stands in" in texts(result, "inconclusive")
    assert result.evidence["torch_version"] == "2.13.0+cu128"
    assert [claim.outcome for claim in result.claims].count(Outcome.INCONCLUSIVE) == 2


# --- path -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "observed"),
    [
        ({}, "no such file"),
        ({f"{PYTHON}/inside": Folder()}, "a folder"),
    ],
)
def test_what_is_no_file_is_a_false_path(files: dict[str, object], observed: str) -> None:
    """The finding says what stands there, and claims that hang on it are inconclusive."""
    result = World(files=files).judge(python_version="3.11.2")

    (finding,) = result.findings
    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.FALSE_CLAIMS)
    assert (finding.kind, finding.field, finding.claimed) == (FindingKind.PATH, "python_path", f'"{PYTHON}"')
    assert observed in finding.observed
    assert observed in result.reason
    assert "python_version" in texts(result, "inconclusive")


def test_a_link_is_judged_by_what_it_runs() -> None:
    """Interpreters of virtual environments are links."""
    assert World(files={PYTHON: Link("/usr/bin/python3")}).judge().verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("answer", "observed"),
    [
        (lambda _files, _argv, _environment: (126, b"permission denied"), "permission denied"),
        (lambda _files, argv, _environment: (0, argv[-3].encode() + b" {}"), "no Python"),
        (lambda _files, argv, _environment: (0, argv[-3].encode() + b" not json"), "no Python"),
        (lambda _files, _argv, _environment: (0, b""), "nothing printed"),
    ],
    ids=["denied", "fields missing", "no JSON", "silent"],
)
def test_what_does_not_answer_is_no_python(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[..., object], observed: str
) -> None:
    """A program that runs and does not answer as Python would makes the path a false claim."""
    monkeypatch.setattr(World, "answer", staticmethod(answer))
    result = World().judge()

    assert [finding.kind for finding in result.findings] == [FindingKind.PATH]
    assert observed in result.findings[0].observed


def test_an_interpreter_that_hangs_is_a_false_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its deadline is part of what was observed."""

    def hang(*_: object) -> tuple[int, bytes]:
        raise FakeTimeoutError

    monkeypatch.setattr(World, "answer", staticmethod(hang))

    assert "timed out" in World().judge().findings[0].observed


# --- versions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claimed", "observed", "false"),
    [
        ("2.13.0", "2.13.0+cpu", False),
        ("2.13.0+cpu", "2.13.0", False),
        ("2.13.0+cu121", "2.13.0+cpu", True),
        ("2.5.0", "2.13.0+cpu", True),
        ("3.11", "3.11.2", False),
        ("3", "3.11.2", False),
        ("3.1", "3.11.2", True),
        ("3.11.2.0", "3.11.2", False),
        ("3.11.3", "3.11.2", True),
        ("3.11.2.1", "3.11.2", True),
        ("3.11rc1", "3.11.2", True),
        ("2.6.0", "2.6.0a0+df5bbc0", True),
        ("1!3.11", "3.11.2", True),
        ("v3.11.2", "3.11.2", False),
        ("Python 3.11.2", "3.11.2", True),
        ("latest", "3.11.2", True),
        ("custom build", "custom build", False),
        ("3.12.0+", "3.12.0+", False),
        ("2.6", "unknown", True),
    ],
)
def test_versions_compare_as_pep_440(claimed: str, observed: str, *, false: bool) -> None:
    """Local tags count where both have one, fewer parts claim less, and what is no version is false."""
    assert false_version(claimed, observed) is false


@pytest.mark.parametrize(
    ("claimed", "word"),
    [
        ("Python 3.11.2", "3.11.2"),
        ("3.11.2 (main, Mar 13 2023, 12:18:29) [GCC 12.2.0]", "3.11.2"),
        ("CPython 3.12.0+", "3.12.0+"),
        ("3.11", "3.11"),
        ("latest", "latest"),
    ],
)
def test_an_interpreters_own_words_hold_its_version(claimed: str, word: str) -> None:
    """A report that quotes `python --version` or `sys.version` tells the truth."""
    assert version_word(claimed) == word


def test_a_false_version_names_claim_and_observation_with_its_local_tag() -> None:
    """As a person would say it."""
    result = World().judge(torch_version="2.5.0", python_version="3.12.1")

    assert result.findings == (
        Finding(FindingKind.VERSION, "python_version", '"3.12.1"', "3.11.2"),
        Finding(FindingKind.VERSION, "torch_version", '"2.5.0"', "2.13.0+cu128"),
    )
    assert 'torch_version: claimed "2.5.0", observed 2.13.0+cu128' in result.reason


def test_a_torch_that_cannot_be_imported_is_no_torch() -> None:
    """Whatever its installer recorded."""
    broken = torch(torch_version=None, error="OSError: libtorch.so")
    result = World(torch=broken).judge(torch_version="2.13.0")

    assert result.findings[0].observed == "torch cannot be imported: OSError: libtorch.so"
    assert World(torch=broken).judge(torch_version=None).findings == ()


def test_a_torch_whose_import_ends_the_process_is_no_torch() -> None:
    """The first line stands, and how the process ended is what was observed."""
    result = World(torch=None, code=139).judge(python_version="3.11.2", torch_version="2.13.0")

    assert [finding.field for finding in result.findings] == ["torch_version"]
    assert "signal 11" in result.findings[0].observed


@pytest.mark.parametrize("count", [-1, 10**7, 10**4000], ids=["negative", "large", "huge"])
def test_a_number_of_devices_that_is_none_is_no_answer(count: int) -> None:
    """What cannot be meant is not recorded, compared or shown."""
    result = on_devices(2, torch=torch(count)).judge(gpu_count=2)

    assert result.findings[0].observed == "torch cannot be imported: it exited with code 0 over it"
    assert result.evidence["gpu_count"] == 0


@pytest.mark.parametrize(("world", "hidden"), [(World(), True), (on_devices(2), False)], ids=["none", "two"])
def test_devices_are_hidden_where_none_was_given(world: World, *, hidden: bool) -> None:
    """An engine may give devices to containers of images that ask for them: that would look like a forged answer."""
    seen: list[Mapping[str, str]] = []
    answer = world.answer

    def watched(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        seen.append(environment)
        return answer(files, argv, environment)

    world.answer = watched  # type: ignore[assignment, method-assign] # of this one
    world.judge()

    assert [environment.get("CUDA_VISIBLE_DEVICES") for environment in seen] == ["" if hidden else None]


def test_no_bytecode_that_was_there_before_answers() -> None:
    """Neither the first question, which is put without variables, nor the second, which is put with them."""
    world, seen = World(), []
    answer = world.answer

    def watched(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        seen.append((argv[argv.index("-X") + 1], environment["PYTHONPYCACHEPREFIX"]))
        return answer(files, argv, environment)

    world.answer = watched  # type: ignore[assignment, method-assign] # of this one
    world.judge()
    world.judge()

    assert len({folder.removeprefix("pycache_prefix=") for folders in seen for folder in folders}) == 4


# --- capabilities -----------------------------------------------------------------------------------------


def test_devices_that_are_claimed_and_not_seen_are_findings() -> None:
    """A CPU build of torch on a machine with devices sees none."""
    result = on_devices(0).judge(cuda_available=True, gpu_count=2)

    assert [finding.field for finding in result.findings] == ["cuda_available", "gpu_count"]
    assert "0 of 2 devices; the attempt was given 2" in result.findings[0].observed
    assert not result.emulated


@pytest.mark.parametrize(
    ("given", "seen", "claim", "outcome"),
    [
        (2, 2, 2, "holds"),
        (2, 2, 3, "finding"),
        (2, 2, 1, "under_claims"),
        (2, 1, 2, "finding"),
        (8, 2, 8, "holds"),
        (8, 2, 9, "finding"),
        (8, 2, 2, "holds"),
        (8, 0, 8, "finding"),
        (1, 2, 1, "holds"),
        (0, 2, 0, "holds"),
        (0, 0, 1, "finding"),
    ],
)
def test_a_number_of_devices_is_judged_by_what_was_given_and_what_is_seen(
    given: int, seen: int, claim: int, outcome: str
) -> None:
    """More devices at probe time than at the attempt's, or fewer, make nobody a liar."""
    result = on_devices(seen, given=given).judge(gpu_count=claim)

    assert bool(result.findings) is (outcome == "finding")
    assert outcome == "finding" or "gpu_count" in texts(result, outcome)


def test_an_engine_that_gives_no_devices_is_nobodys_false_claim() -> None:
    """The same devices are asked for on the base image before the environment is blamed."""
    with pytest.raises(SandboxError, match="out of devices"):
        on_devices(2, refusal="out of devices").judge(gpu_count=2)


def test_who_claims_less_than_there_is_passes_and_is_counted_apart() -> None:
    """An under-claim deceives nobody."""
    passed = TierResult(Tier.C4, Verdict.PASSED)
    result = on_devices(2, c4=passed).judge(cuda_available=False, gpu_count=0, ddp_expected_ok=False)

    assert (result.verdict, result.findings) == (Verdict.PASSED, ())
    assert len(result.evidence["under_claims"]) == 3  # type: ignore[arg-type] # a list


def test_who_was_given_no_device_and_says_so_claims_no_less() -> None:
    """Devices that are there only now were not the agent's to see."""
    result = on_devices(2, given=0).judge(cuda_available=False, gpu_count=0)

    assert result.evidence["under_claims"] == []


@pytest.mark.parametrize(("frameworks", "said"), [(("jax",), "jax"), ((), "uses none")])
def test_another_framework_is_not_judged_by_torch(frameworks: tuple[str, ...], said: str) -> None:
    """Where the repository uses jax alone, or another runtime, nothing can be said of what that would see."""
    world = on_devices(0, torch=torch(torch_version=None, error="No module named 'torch'"), frameworks=frameworks)

    assert said in texts(world.judge(cuda_available=True), "inconclusive")
    assert world.judge(cuda_available=True, torch_version="2.0").findings


def test_cuda_without_any_device_is_inconclusive() -> None:
    """Nothing to see is no lie."""
    result = replace(World(), hardware=Hardware(Accelerator.CUDA, reason="no driver")).judge(gpu_count=4)

    assert (result.verdict, result.findings) == (Verdict.PASSED, ())
    assert "no driver" in texts(result, "inconclusive")


@pytest.mark.parametrize(
    ("c4", "outcome"),
    [
        (TierResult(Tier.C4, Verdict.FAILED, Cause.TIMEOUT, "the ranks never met"), "finding"),
        (TierResult(Tier.C4, Verdict.PASSED), "holds"),
        (TierResult(Tier.C4, Verdict.SKIPPED, reason="1 device found, 2 needed"), "inconclusive"),
        (TierResult(Tier.C4, Verdict.ERROR, reason="the engine went away"), "inconclusive"),
        (TierResult(Tier.C4, Verdict.FAILED, emulated=True), "inconclusive"),
        (SandboxError("the engine went away"), "inconclusive"),
        (None, "inconclusive"),
    ],
)
def test_distributed_training_is_judged_by_c4(c4: TierResult | SandboxError | None, outcome: str) -> None:
    """Only a real verdict of C4 decides; that it cannot be had is no error of C5."""
    result = on_devices(2, c4=c4).judge(ddp_expected_ok=True)

    assert bool(result.findings) is (outcome == "finding")
    if outcome == "finding":
        assert "the ranks never met" in result.reason
    else:
        assert "ddp_expected_ok" in texts(result, outcome)


def test_on_the_cpu_c4_is_not_even_asked() -> None:
    """Emulated ranks say nothing about DDP on devices."""
    result = World(c4=TierResult(Tier.C4, Verdict.FAILED)).judge(ddp_expected_ok=True)

    assert (result.verdict, result.emulated) == (Verdict.PASSED, True)
    assert "ddp_expected_ok" in texts(result, "inconclusive")


# --- the script -------------------------------------------------------------------------------------------


THREE_DEVICES = """
from types import SimpleNamespace
__version__ = "1.0"
cuda = SimpleNamespace(is_available=lambda: True, device_count=lambda: 3)
"""


def _asked(path: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-S", "-B", str(CLAIMS), "FIRST", "SECOND", sys.executable]
    return subprocess.run(argv, check=False, capture_output=True, text=True, env={"PYTHONPATH": str(path)})


def _answers(path: Path) -> tuple[int, list[dict[str, object]], list[dict[str, object]]]:
    done = _asked(path)

    def told(nonce: str) -> list[dict[str, object]]:
        lines = [line for line in done.stdout.splitlines() if line.startswith(f"{nonce} ")]
        return [json.loads(line.removeprefix(f"{nonce} ")) for line in lines]

    return done.returncode, told("FIRST"), told("SECOND")


@pytest.mark.parametrize(
    ("torch", "wanted"),
    [
        ("raise SystemExit(3)", {"torch_version": None, "error": "SystemExit: 3"}),
        ("print('hello', end='')\n1/0", {"torch_version": None, "error": "ZeroDivisionError: division by zero"}),
        ("__version__ = '1.0+x'", {"torch_version": "1.0+x", "error": "AttributeError"}),
        (THREE_DEVICES, {"torch_version": "1.0", "error": "", "cuda_available": True, "gpu_count": 3}),
    ],
)
def test_the_script_survives_any_torch(tmp_path: Path, torch: str, wanted: dict[str, object]) -> None:
    """Whatever importing torch does short of ending the process, there are two answers on lines of their own."""
    (tmp_path / "torch.py").write_text(torch)

    code, (interpreter,), (seen,) = _answers(tmp_path)

    assert code == 0
    assert interpreter == {"python_version": sys.version.split()[0], "executable": sys.executable}
    for name, value in wanted.items():
        assert seen[name] == value or (name == "error" and str(seen[name]).startswith(str(value)))


def test_the_script_says_what_it_knows_before_torch_ends_the_process(tmp_path: Path) -> None:
    """The first answer is out before torch is touched."""
    (tmp_path / "torch.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")

    code, first, second = _answers(tmp_path)

    assert code != 0
    assert [answer["python_version"] for answer in first] == [sys.version.split()[0]]
    assert second == []


def test_no_start_up_hook_has_a_part_in_the_version(tmp_path: Path) -> None:
    """What Python runs by itself runs after the first answer: it changes nothing of it, and does not know its nonce."""
    spoil = "import sys; sys.version = '2.7.18'; print('HOOK', open('/proc/self/cmdline').read(), sys.orig_argv)"
    (tmp_path / "sitecustomize.py").write_text(spoil)
    (tmp_path / "json.py").write_text(f'{spoil}\ndef dumps(_): return \'{{"python_version": "2.7.18"}}\'')

    done = _asked(tmp_path)

    assert done.stdout.count("HOOK") == 2
    assert done.stdout.count("FIRST") == 1
    assert f'FIRST {{"python_version": "{sys.version.split()[0]}"' in done.stdout


def test_where_torch_is_recorded_is_told(tmp_path: Path) -> None:
    """Every record that the interpreter finds, to be read from outside: not what it makes of them."""
    (tmp_path / "torch.py").write_text(THREE_DEVICES)
    for name in ("torch-1.0.dist-info", "torch-0.9.egg-info"):
        (tmp_path / name).mkdir()
    (tmp_path / "torch-1.0.dist-info/METADATA").write_text("Name: torch\nVersion: 1.0\n")

    _, _, (seen,) = _answers(tmp_path)

    assert seen["file"] == str(tmp_path / "torch.py")
    assert seen["records"] == [str(tmp_path / "torch-1.0.dist-info"), str(tmp_path / "torch-0.9.egg-info")]
