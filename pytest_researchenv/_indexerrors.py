"""What asking a package index may raise."""

from __future__ import annotations

import requests
from pypi_simple import UnsupportedContentTypeError, UnsupportedRepoVersionError


__all__ = ["INDEX_ERRORS"]

#: Beside `NoSuchProjectError`.
INDEX_ERRORS = (requests.RequestException, UnsupportedContentTypeError, UnsupportedRepoVersionError, ValueError)
