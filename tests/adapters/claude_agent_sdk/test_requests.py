"""What identifies a request of the CLI."""

from typing import Any

from holdfast.adapters.claude_agent_sdk.request_identity import identity_of, with_results


def request(*results: str) -> dict[str, Any]:
    calls: list[Any] = [{"type": "tool_use", "id": name, "name": "Agent", "input": {}} for name in ("a", "b")]
    blocks: list[Any] = [
        {"type": "tool_result", "tool_use_id": name, "content": f"result {name}"} for name in results
    ]
    return {"messages": [{"role": "assistant", "content": calls}, {"role": "user", "content": blocks}]}


def test_results_stand_in_the_order_of_their_calls() -> None:
    """Parallel calls end in another order in each attempt: seen with two subagents, whose answer was asked for again."""
    one, other = (identity_of(with_results(request(*order), {})) for order in (("a", "b"), ("b", "a")))
    assert one == other


def test_a_text_and_a_list_with_it_are_the_same() -> None:
    """The CLI writes either, with or without a mark for the provider's cache."""
    block = {"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}
    one, other = (identity_of({"messages": [{"role": "user", "content": said}]}) for said in ("go", [block]))
    assert one == other
