"""What reads and writes each kind of record of an attempt.

To make one takes milliseconds, so each is made once.
"""

from __future__ import annotations

from pydantic import TypeAdapter

from pytest_researchenv.model import AttemptStart, Audit, Environment, Eviction, TierResult
from pytest_researchenv.research.inspection import Inspection
from pytest_researchenv.research.result import ResearchResult


__all__ = ["AUDITS", "ENVIRONMENTS", "EVICTIONS", "INSPECTIONS", "RESEARCH_RESULTS", "RESULTS", "STARTS"]

AUDITS = TypeAdapter(Audit)
ENVIRONMENTS = TypeAdapter(Environment)
EVICTIONS = TypeAdapter(Eviction)
INSPECTIONS = TypeAdapter(Inspection)
RESEARCH_RESULTS = TypeAdapter(ResearchResult)
RESULTS = TypeAdapter(TierResult)
STARTS = TypeAdapter(AttemptStart)
