"""schemathesis against the API as it describes itself: no request makes the server fail, every answer is documented."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS
from schemathesis.config import SchemathesisConfig
from tests.ui.browser import library
from tests.ui.browser.inspector import TOKEN, Inspector

import holdfast
from holdfast.ui.acts import ACTS
from holdfast.ui.json_api import ENDPOINTS

_OPERATIONS = [
    "GET /live",
    *(f"GET /api/{name}" for name in ENDPOINTS),
    *(f"POST /api/acts/{name}" for name in ACTS),
]
_LEFT_OUT = {"POST /api/acts/resume": "it starts programs", "GET /live": "it never ends: see test_live.py"}


@pytest.fixture(scope="module")
def api(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Inspector, "schemathesis.schemas.BaseSchema"]]:
    directory: Path = tmp_path_factory.mktemp("api")
    url = f"sqlite:///{directory / 'store.db'}"
    library.points(url)
    library.asked(url)
    library.files(url, directory)
    library.stopped(url)
    with Inspector(url) as inspector:
        headers = {"authorization": f"Bearer {TOKEN}"}
        described = httpx.get(f"{inspector.base}/api/openapi.json", headers=headers, timeout=120).json()
        schema = schemathesis.openapi.from_dict(described, config=SchemathesisConfig())
        schema.config.update(base_url=inspector.base)
        yield inspector, schema


def test_the_description_has_every_operation(
    api: tuple[Inspector, "schemathesis.schemas.BaseSchema"],
) -> None:
    """What is tested below is all that there is."""
    _, schema = api
    found = {f"{one.ok().method.upper()} {one.ok().path}" for one in schema.get_all_operations()}
    assert found == set(_OPERATIONS)


@pytest.mark.parametrize("operation", [one for one in _OPERATIONS if one not in _LEFT_OUT])
def test_no_request_makes_it_fail(
    api: tuple[Inspector, "schemathesis.schemas.BaseSchema"],
    operation: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wanted and unwanted parameters, bodies that fit and do not: status, type and shape are those that are documented."""
    inspector, schema = api
    method, _, path = operation.partition(" ")
    wanted = schema[path][method]
    numbers = itertools.count()

    @given(case=wanted.as_strategy())
    @settings(
        max_examples=25, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    def probe(case: "schemathesis.Case") -> None:
        if isinstance(case.body, dict) and "path" in case.body:
            case.body["path"] = str(tmp_path / f"file-{next(numbers)}")  # not all over the disk
        if next(numbers) % 2 and isinstance(case.query, dict) and "run" in case.query:
            case.query["run"] = "points"
        response = case.call(headers={"authorization": f"Bearer {TOKEN}"})
        assert response.status_code < 500, response.text
        case.validate_response(
            response,
            checks=[
                CHECKS.get_one(name)
                for name in (
                    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
                )
            ],
        )  # fmt: skip

    probe()
    assert holdfast.store(inspector.store).get("asked").run == "asked"
