"""What the page of one environment shows: values only, wherever they come from."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_researchenv.report.html.text import Excerpt


__all__ = [
    "BehaviourPart",
    "Call",
    "ClaimRow",
    "DiagnosisPart",
    "EnvironmentPage",
    "InspectionPart",
    "SignRow",
    "SubtaskRow",
    "TierPart",
    "Turn",
    "Work",
]


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """One field of the self-report beside what was observed.

    Attributes:
        field: the field.
        claimed: what the agent wrote.
        observed: what was observed; empty where nobody looked.
        outcome: what became of the claim.
    """

    field: str
    claimed: str
    observed: str = ""
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class SignRow:
    """One sign of tampering: its kind, where, what should be there, and what is."""

    kind: str
    where: str
    expected: str
    observed: str


@dataclass(frozen=True, slots=True)
class DiagnosisPart:
    """Why a tier did not pass: what kind of cause it is and what that means, how sure, the line, and what to do."""

    category: str
    meaning: str
    confidence: str
    line: str
    next: str


@dataclass(frozen=True, slots=True)
class TierPart:
    """What was judged of an environment.

    Attributes:
        name: of the tier, or of the audit.
        title: what it verifies, in words.
        verdict: the verdict's word; empty where nothing was judged.
        cause: why it did not pass; empty when it did.
        reason: one line.
        decisive: the log line that decided.
        emulated: whether the CPU stood in for devices.
        facts: when, how long, on what, by which harness: name → value.
        evidence: what was observed: name → value.
        signs: what the audit found.
        log: ends of the log.
        log_name: its file.
        times: how many times it was judged; the newest counts.
        diagnosis: why it did not pass, by the rules of diagnosis.
    """

    name: str
    title: str
    verdict: str = ""
    cause: str = ""
    reason: str = ""
    decisive: str = ""
    emulated: bool = False
    facts: tuple[tuple[str, str], ...] = ()
    evidence: tuple[tuple[str, str], ...] = ()
    signs: tuple[SignRow, ...] = ()
    log: Excerpt | None = None
    log_name: str = ""
    times: int = 1
    diagnosis: DiagnosisPart | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a tool: which, what with, and what came of it.

    Attributes:
        tool: its name.
        command: what was run, or the arguments.
        shell: whether that is a shell's command.
        output: what came of it.
    """

    tool: str
    command: str
    shell: bool
    output: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One step of the agent.

    Attributes:
        number: from 1.
        source: who.
        after: since the beginning, in words; empty where that is not known.
        took: until the next step, in words; likewise.
        tokens: in words; likewise.
        message: what was said.
        thought: what was thought.
        calls: tools that were used.
    """

    number: int
    source: str
    after: str
    took: str
    tokens: str
    message: str
    thought: str
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What the agent did.

    Attributes:
        turns: the steps that are shown.
        omitted: how many are left out after the first ones.
        split: how many of those that are shown come before what is left out.
        problem: why there are none; empty where there are.
    """

    turns: tuple[Turn, ...] = ()
    omitted: int = 0
    split: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SubtaskRow:
    """What a sub-task of a research task came to, in words.

    Attributes:
        name: its id.
        verdict: the verdict's word.
        completed: whether there is a valid score.
        score: the score that decides.
        baseline: what it was compared with.
        claimed: the same score as the agent's own code reported it; empty where it reports none.
        words: the reason.
    """

    name: str
    verdict: str
    completed: str
    score: str
    baseline: str
    claimed: str
    words: str


@dataclass(frozen=True, slots=True)
class InspectionPart:
    """What a model said of a sub-task's results.

    Attributes:
        subtask: which.
        verdict: the inspection's word.
        model: who was asked.
        words: its summary, or why there is no verdict.
        violations: category, what, and quotes.
        voided: what it said and could not prove.
    """

    subtask: str
    verdict: str
    model: str
    words: str
    violations: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    voided: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BehaviourPart:
    """How an agent went about a research task, and what came of it.

    Attributes:
        facts: name → value.
        timeline: a drawing; empty where there is none.
        ends: what its left and its right end mean.
        phases: name, share of time, of tokens, of steps.
        points: when a score was printed, which, and its value.
        unchecked: when a job was started that nobody looked at again, and its command.
        over_claims: of what, what was claimed, what was found, and the line.
        subtasks: what they came to.
        inspections: what a model said of them.
    """

    facts: tuple[tuple[str, str], ...] = ()
    timeline: str = ""
    ends: tuple[str, str] = ("", "")
    phases: tuple[tuple[str, str, str, str], ...] = ()
    points: tuple[tuple[str, str, str], ...] = ()
    unchecked: tuple[tuple[str, str], ...] = ()
    over_claims: tuple[tuple[str, str, str, str], ...] = ()
    subtasks: tuple[SubtaskRow, ...] = ()
    inspections: tuple[InspectionPart, ...] = ()


@dataclass(frozen=True, slots=True)
class EnvironmentPage:
    """Everything.

    Attributes:
        title: repository.
        agent: who built it.
        attempt: number.
        home: address of the run's page.
        facts: name → value.
        notes: what people should know of it.
        error: what broke while it was built; empty where nothing did.
        tiers: what was judged, the audit last.
        claims: the self-report beside what was observed.
        report_problem: why there is no self-report; empty where there is one.
        prompt: what the agent was told; None where it was not told in words.
        work: what it did.
        transcript: ends of what it printed; None where there is nothing.
        refused: requests to the outside that were refused.
        behaviour: how it went about a research task; None of any other work.
        commands: what to type to see it again: what for → command.
        version: of this package.
    """

    title: str
    agent: str
    attempt: str
    home: str
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""
    tiers: tuple[TierPart, ...] = ()
    claims: tuple[ClaimRow, ...] = ()
    report_problem: str = ""
    prompt: Excerpt | None = None
    work: Work = Work()
    transcript: Excerpt | None = None
    refused: tuple[str, ...] = ()
    behaviour: BehaviourPart | None = None
    commands: tuple[tuple[str, str], ...] = ()
    version: str = ""
