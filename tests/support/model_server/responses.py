"""Answers of the Responses API: the object, and the events of its stream in the order in which they really come."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from tests.support.model_server.frames import CREATED, Frame, fragments, sse
from tests.support.model_server.script import Answer, ToolCall


def response(answer: Answer, *, status: str | None = None) -> dict[str, Any]:
    """A response, whole; with a status before the last, one that has only begun."""
    cut_short = answer.finish == "length"
    final = status is None
    asked, made = answer.asked.prompt_tokens, answer.completion_tokens
    usage = {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": len(answer.reasoning)},
        "total_tokens": asked + made,
    }
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": CREATED,
        "status": status or ("incomplete" if cut_short else "completed"),
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if final and cut_short else None,
        "instructions": None,
        "max_output_tokens": answer.asked.tokens_max,
        "metadata": {},
        "model": answer.asked.model,
        "output": _items(answer) if final else [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if final else None,
    }


def response_events(answer: Answer) -> Iterator[Frame]:
    """A response as a stream."""
    numbers = count()

    def event(kind: str, carries: str = "", /, **fields: Any) -> Frame:
        return sse({"type": kind, "sequence_number": next(numbers), **fields}, kind, carries)

    yield event("response.created", response=response(answer, status="in_progress"))
    yield event("response.in_progress", response=response(answer, status="in_progress"))
    for index, item in enumerate(_items(answer)):
        begun = {"item_id": item["id"], "output_index": index}
        yield event("response.output_item.added", output_index=index, item=_begun(item))
        if item["type"] == "reasoning":
            part = {**begun, "summary_index": 0}
            whole = "".join(answer.reasoning)
            empty = {"type": "summary_text", "text": ""}
            yield event("response.reasoning_summary_part.added", **part, part=empty)
            for token in answer.reasoning:
                yield event("response.reasoning_summary_text.delta", token, **part, delta=token)
            yield event("response.reasoning_summary_text.done", **part, text=whole)
            yield event("response.reasoning_summary_part.done", **part, part=item["summary"][0])
        elif item["type"] == "message":
            part = {**begun, "content_index": 0}
            empty = {**item["content"][0], "text": ""}
            yield event("response.content_part.added", **part, part=empty)
            for token in answer.text:
                yield event("response.output_text.delta", token, **part, delta=token, logprobs=[])
            whole = item["content"][0]["text"]
            yield event("response.output_text.done", **part, text=whole, logprobs=[])
            yield event("response.content_part.done", **part, part=item["content"][0])
        else:
            for piece in fragments(item["arguments"]):
                yield event("response.function_call_arguments.delta", piece, **begun, delta=piece)
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield event("response.function_call_arguments.done", **begun, **done)
        yield event("response.output_item.done", output_index=index, item=item)
    last = "response.incomplete" if answer.finish == "length" else "response.completed"
    yield event(last, response=response(answer))


def _items(answer: Answer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.reasoning:
        summary = [{"type": "summary_text", "text": "".join(answer.reasoning)}]
        items.append({"id": f"rs_{answer.id}", "type": "reasoning", "summary": summary})
    if answer.content is not None:
        content = {"type": "output_text", "annotations": [], "logprobs": [], "text": answer.content}
        items.append(
            {
                "id": f"msg_{answer.id}",
                "type": "message",
                "role": "assistant",
                "status": "incomplete" if answer.finish == "length" else "completed",
                "content": [content],
            }
        )
    return items + [_call(answer, index, call) for index, call in enumerate(answer.calls)]


def _call(answer: Answer, index: int, call: ToolCall) -> dict[str, Any]:
    return {
        "id": f"fc_{answer.id}{index}",
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "status": "completed",
    }


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """An item as it is announced, before anything stands in it."""
    blank: dict[str, dict[str, Any]] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "reasoning": {"summary": []},
    }
    return {**item, **blank[item["type"]], **({"status": "in_progress"} if "status" in item else {})}
