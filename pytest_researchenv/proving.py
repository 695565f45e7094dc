"""Show that a suite's probes can be believed: they pass on a good environment and fail on bare and broken ones.

For each repository the oracle's environment must pass, and the one in which nothing was installed must fail. Then the
oracle's frozen environment is broken in the three ways that `repo.toml` names, and the tiers that it names must notice.
Every verdict goes to the ordinary store, under agents called `sabotage-…`.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from pytest_researchenv.agents.protocol import Agent
from pytest_researchenv.agents.registry import find_agent
from pytest_researchenv.agents.script import ScriptAgent
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import ConfigurationError, ResearchEnvError
from pytest_researchenv.harness import Harness
from pytest_researchenv.model import (
    Cause,
    Environment,
    PathSource,
    Repository,
    Sabotage,
    SabotageKind,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.packedlogs import log_place
from pytest_researchenv.probes.table import PROBES
from pytest_researchenv.progress import Teller
from pytest_researchenv.settings import Settings


__all__ = [
    "BARE_TIERS",
    "ENDED_WELL",
    "Proof",
    "noticed",
    "probed_tiers",
    "prove",
    "sabotage_agent",
    "sabotage_agent_name",
]

#: Tiers that a bare environment must fail. C5 is none of them: who claims nothing tells no lie.
BARE_TIERS = (Tier.C0, Tier.C1, Tier.C2, Tier.C3, Tier.C4)

#: How the script of a sabotage that was carried out ended.
ENDED_WELL = "exited with code 0"

#: What a tracked file holds that does nothing and ends well.
_NOTHING = b'"""Nothing."""\n'

_PREPARE = """\
export UV_NO_CACHE=1
if [[ -n "${PIP_FIND_LINKS:-}" && -z "${UV_FIND_LINKS:-}" ]]; then
    export UV_FIND_LINKS="${PIP_FIND_LINKS// /,}"
fi
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """One verdict, and what it had to be.

    Attributes:
        agent: whose environment was judged.
        repository: what for.
        tier: which tier.
        wanted: the verdict that a probe to be believed gives.
        result: what was found; None when an error of the infrastructure left no verdict.
        error: that error, in words.
    """

    agent: str
    repository: Repository
    tier: Tier
    wanted: Verdict
    result: TierResult | None
    error: str = ""

    @property
    def holds(self) -> bool:
        """Whether it came out as it had to; a skip, for lack of hardware, shows nothing and refutes nothing."""
        if self.result is None or self.result.verdict is Verdict.SKIPPED:
            return self.result is not None
        return noticed(self.result) if self.wanted is Verdict.FAILED else self.result.verdict is self.wanted


#: Failures that show nothing of a probe: the environment was never looked at, or a busy machine may be to blame.
_UNSEEN = (Cause.NO_REPORT, Cause.INVALID_REPORT, Cause.TIMEOUT, Cause.OUT_OF_MEMORY)


def noticed(result: TierResult) -> bool:
    """Whether a probe failed an environment for what it is."""
    return result.verdict is Verdict.FAILED and result.cause not in _UNSEEN


def probed_tiers(repository: Repository) -> tuple[Tier, ...]:
    """Return the tiers of a repository that are probed."""
    return tuple(tier for tier in Tier if repository.spec(tier).idle[0] is Cause.NONE)


def sabotage_agent_name(kind: SabotageKind) -> str:
    """Return the name under which the results of a broken environment are stored."""
    return f"sabotage-{kind}"


def sabotage_agent(kind: SabotageKind, sabotage: Sabotage, oracle: Environment) -> Agent:
    """Return what breaks a good environment, and reports it as honestly as the oracle does.

    Raises:
        ConfigurationError: the good environment has no self-report.
    """
    script = _script(kind, sabotage, oracle)
    # It works in the repository's folder, whose pyproject.toml may send uv to another index.
    return ScriptAgent(sabotage_agent_name(kind), lambda _: script, environment={"UV_NO_CONFIG": "1"})


def prove(
    repositories: Iterable[Repository], *, settings: Settings, engine: Engine, say: Teller | None = None
) -> Iterator[Proof]:
    """Judge the good, the bare and the broken environments of some repositories.

    What is stored already and still stands is not done again.

    Args:
        repositories: those to prove.
        settings: the session's; the run is continued.
        engine: what to work with.
        say: told what is being done.

    Yields:
        One proof for each verdict, as soon as it is known; where a sabotage could not be carried out, it says so.
    """
    prover = _Prover(replace(settings, continued=True), engine, say or Teller())
    for repository in repositories:
        yield from prover.repository(repository)


@final
class _Prover:
    def __init__(self, settings: Settings, engine: Engine, say: Teller) -> None:
        self._settings = settings
        self._engine = engine
        self._say = say

    def repository(self, repository: Repository) -> Iterator[Proof]:
        tiers = probed_tiers(repository)
        oracle = self._harness(find_agent("oracle"), repository, self._engine)
        yield from self._judged(oracle, "oracle", repository, tiers, Verdict.PASSED)
        noop = self._harness(find_agent("noop"), repository, self._engine)
        bare = [tier for tier in tiers if tier in BARE_TIERS]
        yield from self._judged(noop, "noop", repository, bare, Verdict.FAILED)
        try:
            _, environment = oracle.environments.get("oracle", repository)
        except ResearchEnvError:
            return  # Each of the oracle's tiers has said so.
        for kind, sabotage in repository.sabotage.items():
            yield from self._sabotaged(kind, sabotage, repository, environment)

    def _sabotaged(
        self, kind: SabotageKind, sabotage: Sabotage, repository: Repository, oracle: Environment
    ) -> Iterator[Proof]:
        name = sabotage_agent_name(kind)
        engine = replace(
            self._engine, base_image=oracle.image, base_key=f"{self._engine.base_key}, then the oracle's {oracle.image}"
        )
        try:
            agent = sabotage_agent(kind, sabotage, oracle)
            with self._broken(kind, sabotage, repository) as broken:
                harness = self._harness(agent, broken, engine)
                self._carry_out(harness, kind, sabotage, broken)
                for proof in self._judged(harness, name, broken, sabotage.tiers, Verdict.FAILED):
                    yield replace(proof, repository=repository)
        except ResearchEnvError as error:
            for tier in sabotage.tiers:
                yield Proof(name, repository, tier, Verdict.FAILED, None, str(error))

    def _carry_out(self, harness: Harness, kind: SabotageKind, sabotage: Sabotage, repository: Repository) -> None:
        """Break the environment before anything is judged: one that is whole shows nothing."""
        name = sabotage_agent_name(kind)
        with self._say.at(name, repository.slug):
            attempt, environment = harness.environments.get(name, repository)
        if environment.ended != ENDED_WELL:
            raise ConfigurationError(
                f"{repository.name}: the sabotage by {sabotage.target!r} could not be carried out: its script "
                f"{environment.ended}; see {log_place(attempt.transcript)}, and correct [sabotage.{kind}], or remove "
                f"{attempt.folder} to try it again"
            )

    @contextmanager
    def _broken(self, kind: SabotageKind, sabotage: Sabotage, repository: Repository) -> Iterator[Repository]:
        """The repository, with a tree in which its entry point does nothing where that is the sabotage.

        What an agent changes in tracked files is put back before a probe, so this is done to the pinned tree itself: it
        shows that the probe sees the work and not merely a good end.
        """
        if kind is not SabotageKind.ENTRY:
            yield repository
            return
        tree = Harness(self._settings, engine=lambda: self._engine, probes=PROBES).environments.tree(repository)
        # Through a link, something outside the tree would be written to.
        if sabotage.target not in tree.files or (tree.root / sabotage.target).is_symlink():
            raise ConfigurationError(
                f"{repository.name}: [sabotage.entry] names {sabotage.target!r}, which is no file of the pinned tree"
            )
        with tempfile.TemporaryDirectory(prefix="researchenv-") as folder:
            hollow = Path(folder, "tree")
            shutil.copytree(tree.root, hollow, symlinks=True, ignore=shutil.ignore_patterns(".git"))
            (hollow / sabotage.target).write_bytes(_NOTHING)
            yield replace(repository, source=PathSource(str(hollow)))

    def _harness(self, agent: Agent, repository: Repository, engine: Engine) -> Harness:
        def make(*, rebuild: bool) -> Harness:
            return Harness(
                replace(self._settings, rebuild=rebuild),
                engine=lambda: engine,
                probes=PROBES,
                agents=lambda _: agent,
                say=self._say,
            )

        harness = make(rebuild=False)
        return make(rebuild=True) if harness.environments.problem(agent.name, repository) else harness

    @staticmethod
    def _judged(
        harness: Harness, agent: str, repository: Repository, tiers: Iterable[Tier], wanted: Verdict
    ) -> Iterator[Proof]:
        for tier in tiers:
            try:
                result, error = harness.judge(agent, repository, tier).result, ""
            except ConfigurationError:
                raise
            except ResearchEnvError as problem:
                result, error = None, str(problem)
            yield Proof(agent, repository, tier, wanted, result, error)


def _script(kind: SabotageKind, sabotage: Sabotage, oracle: Environment) -> str:
    if oracle.report is None or oracle.report.python_path is None:
        raise ConfigurationError(f"the oracle of {oracle.key.repository} left no self-report: {oracle.report_problem}")
    python, target = shlex.quote(oracle.report.python_path), shlex.quote(sabotage.target)
    actions = {
        SabotageKind.PACKAGE: f"uv pip uninstall --python {python} {target}\n",
        SabotageKind.VERSION: f"uv pip install --python {python} --no-deps {target}\n",
        SabotageKind.ENTRY: "",
    }
    report = [oracle.report.python_path, oracle.report.env_tool or "", oracle.report.env_name or ""]
    return f"{_PREPARE}{actions[kind]}report {shlex.join(report)}\n"
