"""What several tries at the same repository say: does one of k work, do all of k?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import comb

from pytest_researchenv.runs.values import Subject
from pytest_researchenv.statistics.tries import AgentRun


__all__ = ["Reliability", "pass_all_k", "pass_at_k", "reliability"]


def pass_at_k(tries: int, passed: int, k: int) -> float:
    """Estimate how likely at least one of k tries passes: `1 - C(n-c, k) / C(n, k)`.

    Without bias: it is the share of all choices of k of the n tries in which one passed (M. Chen et al., Evaluating
    Large Language Models Trained on Code, arXiv 2107.03374, equation 1).

    Args:
        tries: n, how many there were.
        passed: c, how many of them passed.
        k: 1 to n.
    """
    return 1 - comb(tries - passed, k) / comb(tries, k)


def pass_all_k(tries: int, passed: int, k: int) -> float:
    """Estimate how likely all of k tries pass, written pass^k: `C(c, k) / C(n, k)`.

    Without bias likewise (S. Yao et al., τ-bench, arXiv 2406.12045, section 4).

    Args:
        tries: n, how many there were.
        passed: c, how many of them passed.
        k: 1 to n.
    """
    return comb(passed, k) / comb(tries, k)


@dataclass(frozen=True, slots=True)
class Reliability:
    """Both estimates for one tier and one k, each the mean over repositories.

    Attributes:
        subject: what was judged.
        k: how many tries.
        at_least_one: pass@k.
        all_of_them: pass^k.
        repositories: how many have at least k tries that passed or failed; the mean is over these.
        left_out: how many have fewer, but at least one.
    """

    subject: Subject
    k: int
    at_least_one: float
    all_of_them: float
    repositories: int
    left_out: int


def reliability(part: AgentRun, subject: Subject) -> tuple[Reliability, ...]:
    """Return both estimates for each k from 1 to the most tries at any repository.

    All tries that passed or failed count, and every repository counts the same, however often it was tried.
    """
    outcomes = [found for one in part.repositories if (found := one.outcomes(subject))]
    return tuple(_reliability(outcomes, subject, k) for k in range(1, max(map(len, outcomes), default=0) + 1))


def _reliability(outcomes: Iterable[tuple[bool, ...]], subject: Subject, k: int) -> Reliability:
    every = tuple(outcomes)
    enough = [one for one in every if len(one) >= k]

    def mean(estimate: Callable[[int, int, int], float]) -> float:
        return sum(estimate(len(one), sum(one), k) for one in enough) / len(enough)

    return Reliability(subject, k, mean(pass_at_k), mean(pass_all_k), len(enough), len(every) - len(enough))
