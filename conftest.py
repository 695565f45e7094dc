"""Root conftest: what every test of this checkout may use."""

from __future__ import annotations


pytest_plugins = ["pytester"]
