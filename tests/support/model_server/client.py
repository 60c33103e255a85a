"""Which client the tests have: the matrix runs them with the oldest one supported and with the newest of each major version."""

from typing import Final

import openai
import pytest

SDK: Final = tuple(int(part) for part in openai.__version__.split(".")[:2])
"""The major and the minor version of the ``openai`` that is installed."""

needs_responses: Final = pytest.mark.skipif(
    SDK < (1, 70), reason="the client knows the Responses API, and types its events, only from 1.70 on"
)
