"""Whether reports hold to their formats' schemas."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import xmlschema
from jsonschema import Draft7Validator
from junitparser.xunit2 import JUnitXml


__all__ = ["problems_of_ctrf", "problems_of_junit"]

_HERE = Path(__file__).parent


@cache
def _xsd() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(str(_HERE / "xunit2.xsd"))


@cache
def _ctrf() -> Draft7Validator:
    return Draft7Validator(json.loads((_HERE / "ctrf-schema.json").read_text()))


def problems_of_junit(content: bytes) -> list[str]:
    """Say what is wrong with JUnit XML: by its schema, and to a parser that knows tests."""
    found = [str(error.reason) for error in _xsd().iter_errors(ET.fromstring(content))]  # noqa: S314 - our own
    JUnitXml.fromstring(content)
    return found


def problems_of_ctrf(content: bytes) -> list[str]:
    """Say what is wrong with CTRF JSON."""
    return [error.message for error in _ctrf().iter_errors(json.loads(content))]
