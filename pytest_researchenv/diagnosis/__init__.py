"""Why did a tier fail: one cause, the line of the log that shows it, and how sure that is.

A view over what is stored: it decides no verdict, and nothing rests on it. `rules.toml` has what is known.
"""

from __future__ import annotations

from pytest_researchenv.diagnosis.diagnose import Diagnosis, diagnose
from pytest_researchenv.diagnosis.rules import Rule, shipped_rules
from pytest_researchenv.diagnosis.stored import diagnosis_of
from pytest_researchenv.diagnosis.words import Category, Confidence


__all__ = ["Category", "Confidence", "Diagnosis", "Rule", "diagnose", "diagnosis_of", "shipped_rules"]
