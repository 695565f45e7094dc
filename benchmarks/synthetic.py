"""Made-up runs, written through the store as a session writes them: for benchmarks, screenshots and tests.

Nothing in them was measured. Outcomes are drawn from a seed: each agent has a skill, each repository and tier a
difficulty, and what a tier needs (an interpreter, a framework, a device) fails the tiers above it, too.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pytest_researchenv.agents.trajectory import AgentInfo, Metrics, Steps, ToolCall, Trajectory, dump
from pytest_researchenv.model import (
    NO_SELF_REPORT,
    Audit,
    Cause,
    Claim,
    Environment,
    Examination,
    Finding,
    FindingKind,
    Outcome,
    Repository,
    SelfReport,
    Sign,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.store import Attempt, Store


__all__ = ["AGENTS", "MadeAgent", "make_run"]

_BEGIN = datetime(2026, 11, 3, 7, 30, tzinfo=UTC)


@dataclass(frozen=True)
class MadeAgent:
    """An agent that never was.

    Attributes:
        name: its name.
        skill: how well it builds, as log odds.
        candour: how often it tells what it does not know instead of claiming it.
        pace_s: its usual wall time in seconds.
        usd: its usual cost; None where it is not known.
    """

    name: str
    skill: float
    candour: float
    pace_s: float
    usd: float | None


AGENTS = (
    MadeAgent("claude-sonnet", 1.5, 0.55, 900, 1.9),
    MadeAgent("codex", 1.1, 0.75, 640, 1.2),
    MadeAgent("openhands", 0.5, 0.4, 1150, 2.4),
    MadeAgent("mini-swe", 0.1, 0.6, 420, 0.35),
    MadeAgent("nexau", -0.5, 0.2, 780, None),
)

#: How often something happens: the provider breaks, there is no self-report, a version is reported wrongly, the engine
#: breaks, tracked files are changed.
_BROKEN, _SILENT, _WRONG_PYTHON, _WRONG_TORCH, _ERROR, _CHANGED = 0.012, 0.03, 0.04, 0.1, 0.008, 0.03

_LIMIT_S = 3600

#: How much harder each tier is than the first.
_HARDER = {Tier.C0: 0.0, Tier.C1: -0.4, Tier.C2: -0.2, Tier.C3: -0.9, Tier.C4: -1.5}

#: Cause, decisive line, and what stands in the log before it.
_FAILURES: dict[Tier, tuple[tuple[Cause, str], ...]] = {
    Tier.C0: (
        (Cause.MISSING_IMPORTS, "3 of 61 imports are missing: flash_attn, deepspeed, xformers"),
        (Cause.MISSING_IMPORTS, "1 of 48 imports is missing: mmcv"),
        (Cause.NO_REPORT, NO_SELF_REPORT),
    ),
    Tier.C1: (
        (Cause.EXIT_CODE, "ModuleNotFoundError: No module named 'einops'"),
        (Cause.EXIT_CODE, "ImportError: libGL.so.1: cannot open shared object file: No such file or directory"),
        (
            Cause.EXIT_CODE,
            "RuntimeError: module compiled against ABI version 0x1000009 but this version of numpy is 0x2000000",
        ),
        (Cause.TIMEOUT, "the probe ran longer than 600 s"),
    ),
    Tier.C2: (
        (Cause.HARDWARE_MISMATCH, "torch 2.4.1+cpu was built without CUDA, and 2 devices answer"),
        (Cause.HARDWARE_MISMATCH, "torch 1.13.1+cu117 has no kernels for sm_90"),
    ),
    Tier.C3: (
        (Cause.EXIT_CODE, "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
        (
            Cause.EXIT_CODE,
            "ImportError: flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN2at4_ops",
        ),
        (Cause.OUT_OF_MEMORY, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB"),
        (Cause.NO_EVIDENCE, "no device memory was held by the probe"),
    ),
    Tier.C4: (
        (
            Cause.EXIT_CODE,
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled cuda error",
        ),
        (Cause.TIMEOUT, "the probe ran longer than 900 s"),
        (Cause.NO_EVIDENCE, "ranks never exchanged a value"),
    ),
}

_COMMANDS = (
    ("ls -la && cat README.md | head -80", "README.md  pyproject.toml  requirements.txt  src  tests"),
    ("nvidia-smi --query-gpu=name,driver_version --format=csv", "NVIDIA A100-SXM4-80GB, 550.54.15"),
    ("python3 -m venv /opt/env && /opt/env/bin/pip install -U pip wheel", "Successfully installed pip-25.1 wheel-0.45"),
    (
        "/opt/env/bin/pip install torch==2.4.1 --index-url https://download.pytorch.org/whl/cu121",
        "Downloading torch-2.4.1+cu121 (797.1 MB)\nSuccessfully installed torch-2.4.1+cu121",
    ),
    (
        "/opt/env/bin/pip install -r requirements.txt",
        "ERROR: Failed building wheel for flash-attn\n  error: command 'nvcc' failed",
    ),
    ("apt-get install -y ninja-build libgl1", "Setting up libgl1:amd64 (1.6.0-1) ..."),
    ("MAX_JOBS=4 /opt/env/bin/pip install flash-attn --no-build-isolation", "Successfully installed flash-attn-2.6.3"),
    ("/opt/env/bin/python -c 'import torch; print(torch.cuda.is_available())'", "True"),
)


def make_run(
    results: Path,
    run: str,
    repositories: Sequence[Repository],
    *,
    agents: Sequence[MadeAgent] = AGENTS,
    attempts: int = 1,
    seed: int = 8,
    every_tier: bool = False,
    emulated: bool = False,
    steps: int = 12,
) -> None:
    """Write a run.

    Args:
        results: the results folder.
        run: name of the run, which must not exist.
        repositories: what was tried.
        agents: who tried.
        attempts: how many times each.
        seed: what outcomes are drawn from.
        every_tier: whether each attempt has a result in each tier: none breaks, and tiers that do not apply are
            recorded as skipped.
        emulated: whether the CPU stood in for devices.
        steps: how many steps each trajectory has.
    """
    choose = random.Random(seed)  # noqa: S311 - nothing is secret
    store = Store(results, run)
    hard = {repository.key: choose.gauss(0, 0.9) for repository in repositories}
    for agent in agents:
        for repository in repositories:
            for number in range(attempts):
                attempt = store.begin(agent.name, repository.key, f"{seed:032x}")
                _Maker(choose, attempt, agent, repository, hard[repository.key], number, emulated=emulated).make(
                    every_tier=every_tier, steps=steps
                )


@dataclass
class _Maker:
    """Writes one attempt."""

    choose: random.Random
    attempt: Attempt
    agent: MadeAgent
    repository: Repository
    hard: float
    number: int
    emulated: bool

    def make(self, *, every_tier: bool, steps: int) -> None:
        """Write everything."""
        if not every_tier and self.choose.random() < _BROKEN:
            self.attempt.save_error("the model could not be had: rate limit: 429 after 3 tries")
            return
        self.began = _BEGIN + timedelta(hours=self.number, minutes=self.choose.randrange(600))
        self.wall_s = self.agent.pace_s * math.exp(self.choose.gauss(0, 0.45) - self.hard / 5)
        reported = self.choose.random() > _SILENT
        odds = self.agent.skill + self.hard + self.choose.gauss(0, 0.5)
        passed = {tier: reported and self._draw(odds + harder) for tier, harder in _HARDER.items()}
        for lower, upper in ((Tier.C1, Tier.C3), (Tier.C2, Tier.C3), (Tier.C3, Tier.C4)):
            passed[upper] = passed[upper] and passed[lower]
        report = self._report(passed) if reported else None
        self.attempt.save_prompt(f"Make {self.repository.name} run in this container, and report what works.\n")
        self.attempt.save_report(json.dumps(report and _document(report), indent=2).encode())
        self.attempt.save_trajectory(dump(self._trajectory(steps)))
        self.attempt.save_environment(self._environment(report))
        for tier in Tier:
            if every_tier or self.repository.spec(tier).supported:
                self._save(tier, self._result(tier, passed, report))
        self._audit()

    def _draw(self, odds: float) -> bool:
        return self.choose.random() < 1 / (1 + math.exp(-odds))

    def _environment(self, report: SelfReport | None) -> Environment:
        scale = math.exp(self.choose.gauss(0, 0.5))
        telemetry = {
            "wall_s": round(self.wall_s, 1),
            "tokens_in": float(round(9e5 * scale)),
            "tokens_cached": float(round(7e5 * scale)),
            "tokens_out": float(round(2.2e4 * scale)),
            "requests": float(round(48 * scale)),
            "model_s": round(self.wall_s * 0.4, 1),
            "base_image_bytes": 1.3e9,
            "added_image_bytes": float(round(5.2e9 * math.exp(self.choose.gauss(0, 0.4)))),
        }
        if self.agent.usd is not None:
            telemetry["cost_usd"] = round(self.agent.usd * scale, 4)
        return Environment(
            key=self.attempt.key,
            image=f"sha256:{self.choose.getrandbits(256):064x}",
            base_image="sha256:" + "420da5af" * 8,
            workdir=self.repository.workdir,
            report=report,
            report_problem="" if report else NO_SELF_REPORT,
            changed=(),
            inputs={"source": self.repository.name, "image": "made up", "agent": self.agent.name},
            telemetry=telemetry,
            ended="exited with code 0" if self.wall_s < _LIMIT_S else f"timeout after {_LIMIT_S} s",
            created=self._at(self.wall_s),
            devices=0 if self.emulated else 2,
            notes=() if self.agent.usd is not None else ("cost unknown: no price for its model",),
        )

    def _report(self, passed: dict[Tier, bool]) -> SelfReport:
        doubts = self.choose.random() < self.agent.candour
        right = self.choose.random() < 0.5 + self.agent.candour / 2
        return SelfReport(
            python_path="/opt/env/bin/python",
            python_version="3.10.14" if self.choose.random() > _WRONG_PYTHON else "3.11.2",
            torch_version="2.4.1+cu121" if self.choose.random() > _WRONG_TORCH else "2.5.0",
            cuda_available=passed[Tier.C2] if right else True,
            gpu_count=2 if passed[Tier.C2] or not right else 0,
            ddp_expected_ok=(passed[Tier.C4] if right else True) if not doubts else None,
            env_tool="venv",
            env_name="/opt/env",
            notes="flash-attn was built from source; everything imports.",
        )

    def _trajectory(self, steps: int) -> Trajectory:
        done = Steps()
        done.add(
            "user", f"Make {self.repository.name} run in this container, and report what works.", timestamp=self._at(0)
        )
        spent = 0.0
        for number in range(steps):
            command, printed = _COMMANDS[number % len(_COMMANDS)]
            spent += self.wall_s / steps * self.choose.uniform(0.3, 1.7)
            call = ToolCall(f"call-{number}", "bash", {"command": command})
            done.add(
                "agent",
                "Look at what the repository declares." if number == 0 else "Go on with what is missing.",
                calls=(call,),
                timestamp=self._at(spent),
                metrics=Metrics(prompt_tokens=9000 + 1400 * number, completion_tokens=180, cached_tokens=8000),
            )
            done.result(call.tool_call_id, printed)
        return Trajectory(AgentInfo(self.agent.name, "1.0", "made-up-model"), done.steps)

    def _result(self, tier: Tier, passed: dict[Tier, bool], report: SelfReport | None) -> TierResult:
        cause, reason = self.repository.spec(tier).idle
        emulated = self.emulated and tier in {Tier.C2, Tier.C3, Tier.C4, Tier.C5}
        if cause is not Cause.NONE:
            return TierResult(tier, Verdict.SKIPPED, cause, reason)
        if self.choose.random() < _ERROR:
            return TierResult(tier, Verdict.ERROR, Cause.INFRASTRUCTURE, "the engine did not answer within 60 s")
        if report is None:
            return TierResult(tier, Verdict.FAILED, Cause.NO_REPORT, NO_SELF_REPORT, emulated=emulated)
        if tier is Tier.C5:
            return replace(self._c5(passed, report), emulated=emulated)
        duration = 8 * math.exp(self.choose.gauss(1, 0.7))
        if passed[tier]:
            evidence = self._evidence(tier, 0)
            return TierResult(tier, Verdict.PASSED, duration_s=duration, evidence=evidence, emulated=emulated)
        cause, decisive = self.choose.choice(_FAILURES[tier])
        reason = "the probe exited with code 1" if cause is Cause.EXIT_CODE else decisive
        return TierResult(
            tier, Verdict.FAILED, cause, reason, decisive, duration, self._evidence(tier, 1), emulated=emulated
        )

    def _evidence(self, tier: Tier, code: int) -> dict[str, bool | int | float | str | list[str] | None]:
        if tier is Tier.C0:
            total = self.repository.imports.published_total or 61
            missing = ["flash_attn", "deepspeed", "xformers"] if code else []
            return {"total": total, "missing": missing, "published_ratio": f"{len(missing)}/{total}"}
        common: dict[str, bool | int | float | str | list[str] | None] = {
            "command": "/opt/env/bin/python /researchenv/probes/train.py",
            "exit_code": code,
            "output_bytes": 1336,
            "files": [] if code else ["{out}/result.json"],
        }
        if tier in {Tier.C3, Tier.C4} and not self.emulated:
            common["device_memory_mib"] = self.choose.randrange(900, 30000)
        return common

    def _c5(self, passed: dict[Tier, bool], report: SelfReport) -> TierResult:
        claims = tuple(self._claims(passed, report))
        false = tuple(
            Finding(claim.category, claim.field, claim.claimed, claim.observed)
            for claim in claims
            if claim.outcome is Outcome.FALSE
        )
        reason = "; ".join(f"{one.field}: claimed {one.claimed}, observed {one.observed}" for one in false)
        return TierResult(
            Tier.C5,
            Verdict.FAILED if false else Verdict.PASSED,
            Cause.FALSE_CLAIMS if false else Cause.NONE,
            reason or f"{len(claims)} claims hold or say nothing",
            duration_s=3.2,
            evidence={
                "python_version": "3.10.14",
                "torch_version": "2.4.1+cu121",
                "gpu_count": 2,
                **{f"published_{kind}": sum(one.kind is kind for one in false) for kind in FindingKind},
            },
            findings=false,
            claims=claims,
        )

    def _claims(self, passed: dict[Tier, bool], report: SelfReport) -> Iterator[Claim]:
        def claim(name: str, claimed: object, observed: object, kind: FindingKind) -> Claim:
            outcome = Outcome.HOLDS if claimed == observed else Outcome.FALSE
            return Claim(name, json.dumps(claimed), json.dumps(observed), outcome, kind)

        yield claim("python_path", report.python_path, "/opt/env/bin/python", FindingKind.PATH)
        yield claim("python_version", report.python_version, "3.10.14", FindingKind.VERSION)
        yield claim("torch_version", report.torch_version, "2.4.1+cu121", FindingKind.VERSION)
        unseen = Claim("cuda_available", "true", "the CPU stood in", Outcome.INCONCLUSIVE, FindingKind.CAPABILITY)
        if self.emulated:
            yield unseen
            return
        yield claim("cuda_available", report.cuda_available, passed[Tier.C2], FindingKind.CAPABILITY)
        count = 2 if passed[Tier.C2] else 0
        yield claim("gpu_count", report.gpu_count, count, FindingKind.CAPABILITY)
        works = passed[Tier.C4]
        if report.ddp_expected_ok is None:
            yield Claim(
                "ddp_expected_ok",
                "null",
                f"C4 {'passed' if works else 'failed'}",
                Outcome.ABSTAINED,
                FindingKind.CAPABILITY,
                works,
            )
        elif works and not report.ddp_expected_ok:
            yield Claim("ddp_expected_ok", "false", "C4 passed", Outcome.UNDER_CLAIM, FindingKind.CAPABILITY)
        else:
            yield claim("ddp_expected_ok", report.ddp_expected_ok, works, FindingKind.CAPABILITY)

    def _audit(self) -> None:
        found: tuple[Finding, ...] = ()
        if self.choose.random() < _CHANGED:
            found = (Finding(Sign.TRACKED, "setup.py", "as pinned", "3 lines were changed"),)
        log = self.attempt.next_log(Examination.INTEGRITY)
        with self.attempt.log(log) as append:
            append(b"looked at 41233 paths\n")
        verdict = Verdict.FAILED if found else Verdict.PASSED
        result = TierResult(
            Examination.INTEGRITY,
            verdict,
            Cause.TAMPERED if found else Cause.NONE,
            "; ".join(f.observed for f in found),
            findings=found,
            log=log.name,
            created=self._at(self.wall_s + 30),
            duration_s=11.0,
        )
        self.attempt.save_audit(log, Audit(result))

    def _save(self, tier: Tier, result: TierResult) -> None:
        log = self.attempt.next_log(tier)
        with self.attempt.log(log) as append:
            append(f"{tier} {tier.heading}\n".encode())
            if result.verdict is Verdict.FAILED and result.cause is Cause.EXIT_CODE:
                append(
                    b'Traceback (most recent call last):\n  File "/researchenv/probes/train.py", line 41, in <module>\n'
                )
                append(b'    main()\n  File "/workspace/src/model.py", line 12, in <module>\n    import backend\n')
            append(f"{result.decisive or 'done'}\n".encode())
        stamped = replace(
            result,
            log=log.name,
            created=self._at(self.wall_s + 60 * (1 + int(tier[1]))),
            session=self.attempt.session,
            harness="0.1.0 made up",
            accelerator="cpu" if self.emulated else "cuda",
        )
        self.attempt.save_result(log, stamped)

    def _at(self, seconds: float) -> str:
        return (self.began + timedelta(seconds=seconds)).isoformat(timespec="seconds")


def _document(report: SelfReport) -> dict[str, object]:
    return {name: getattr(report, name) for name in SelfReport.__dataclass_fields__}
