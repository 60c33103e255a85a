"""The description of the API says what there is: every address, the stream too, and the shape of each answer."""

from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from tests.ui.runs import asking, finished, in_doubt

from holdfast.ui.json_api import ENDPOINTS

QUERIES: dict[str, dict[str, str]] = {
    "event": {"seq": "3"},
    "editable": {"place": "done@1"},
    "diff": {"a": "done@1", "b": "done"},
    "search": {"q": "money"},
}


@pytest.fixture
def described(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/openapi.json").json()
    return found


def test_every_answer_has_the_shape_that_is_described(
    client: httpx.Client, url: str, described: dict[str, Any]
) -> None:
    """Before, each was described as an object, and nothing more."""
    finished(url)
    in_doubt(url)
    asking(url)
    for name, endpoint in ENDPOINTS.items():
        query = {"run": "done"} if any(one.name == "run" for one in endpoint.parameters) else {}
        answer = client.get(f"/api/{name}", params=query | QUERIES.get(name, {}))
        assert answer.status_code == 200, answer.text
        content = described["paths"][f"/api/{name}"]["get"]["responses"]["200"]["content"]
        schema = content["application/json"]["schema"]
        assert set(schema) == {"$ref"}
        Draft202012Validator({**schema, "components": described["components"]}).validate(answer.json())


def test_the_stream_is_described(described: dict[str, Any]) -> None:
    """Before, others' front ends had to find ``/live`` in the manual."""
    live = described["paths"]["/live"]["get"]
    assert {one["name"] for one in live["parameters"]} == {"run", "after", "Last-Event-ID"}
    assert "text/event-stream" in live["responses"]["200"]["content"]
