"""Root conftest: what is no test is not looked at."""

from __future__ import annotations


collect_ignore = ["fixtures"]
