"""Turns a recorded answer of the responses API into events, for a program that reads a stream."""

from collections.abc import Iterator, Mapping
from typing import Any

Event = dict[str, Any]


def events_of_response(response: Mapping[str, Any]) -> list[Event]:
    """The events of a stream of this response."""
    return _numbered([*_opening(response), *_items(response), _closing(response)])


def events_so_far(response: Mapping[str, Any]) -> list[Event]:
    """The beginning of that stream, up to the end of the text so far. Nothing in it is reported as done."""
    return _numbered([*_opening(response), *_begun(response)])


def events_after(response: Mapping[str, Any]) -> list[Event]:
    """The rest of that stream, after the program got all text of the message: it reports all as done."""
    return _numbered([*_items(response, begun=True), _closing(response)])


def text_event(response: Mapping[str, Any], text: str) -> Event:
    """An event with more text for a message that has begun."""
    return {
        "type": "response.output_text.delta",
        "sequence_number": 0,
        **_place(response),
        "delta": text,
        "logprobs": [],
    }


def with_text(response: Mapping[str, Any], text: str, begun: Mapping[str, Any]) -> dict[str, Any]:
    """The response with this text in its message. The message keeps the ids that it had in ``begun``."""
    item_id = _place(begun)["item_id"]
    output = [dict(item) for item in response.get("output") or ()]
    for item in output:
        if item.get("type") == "message":
            item["content"] = [{"type": "output_text", "text": text, "annotations": []}]
            item["id"] = item_id or item.get("id", "")
            break
    return {**response, "id": begun.get("id") or response.get("id"), "output": output}


def _opening(response: Mapping[str, Any]) -> list[Event]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    return [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]


def _closing(response: Mapping[str, Any]) -> Event:
    status = response.get("status") or "completed"
    return {"type": f"response.{status}", "response": dict(response)}


def _begun(response: Mapping[str, Any]) -> Iterator[Event]:
    for number, item in _messages(response):
        yield from _message_begun(number, item)
        for part_number, part in enumerate(item.get("content") or ()):
            if part.get("text"):
                place = {"item_id": item.get("id", ""), "output_index": number, "content_index": part_number}
                yield {"type": "response.output_text.delta", **place, "delta": part["text"], "logprobs": []}
        return


def _message_begun(number: int, item: Mapping[str, Any]) -> Iterator[Event]:
    place = {"item_id": item.get("id", ""), "output_index": number, "content_index": 0}
    begun = {**item, "status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", "output_index": number, "item": begun}
    part = {"type": "output_text", "text": "", "annotations": []}
    yield {"type": "response.content_part.added", **place, "part": part}


def _items(response: Mapping[str, Any], *, begun: bool = False) -> Iterator[Event]:
    """The events of each item from beginning to end; ``begun``: the first message was opened before."""
    is_open = begun
    for number, item in enumerate(response.get("output") or ()):
        item_id = item.get("id", "")
        if item.get("type") == "message":
            yield from _message(number, item, is_open=is_open)
            is_open = False
        else:
            yield {"type": "response.output_item.added", "output_index": number, "item": _emptied(item)}
            if item.get("type") == "function_call":
                place = {"item_id": item_id, "output_index": number}
                kind = "response.function_call_arguments"
                yield {"type": f"{kind}.delta", **place, "delta": item.get("arguments", "")}
                yield {
                    "type": f"{kind}.done",
                    **place,
                    "arguments": item.get("arguments", ""),
                    "name": item.get("name", ""),
                }
        yield {"type": "response.output_item.done", "output_index": number, "item": dict(item)}


def _message(number: int, item: Mapping[str, Any], *, is_open: bool) -> Iterator[Event]:
    if not is_open:
        yield from _message_begun(number, item)
    for part_number, part in enumerate(item.get("content") or ()):
        place = {"item_id": item.get("id", ""), "output_index": number, "content_index": part_number}
        if part.get("type") == "output_text":
            if not is_open:
                yield {"type": "response.output_text.delta", **place, "delta": part["text"], "logprobs": []}
            yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **place, "part": dict(part)}


def _emptied(item: Mapping[str, Any]) -> dict[str, Any]:
    return {**item, "arguments": ""} if "arguments" in item else dict(item)


def _messages(response: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    return [(n, item) for n, item in enumerate(response.get("output") or ()) if item.get("type") == "message"]


def _place(response: Mapping[str, Any]) -> dict[str, Any]:
    number, item = next(iter(_messages(response)), (0, {}))
    return {"item_id": item.get("id", ""), "output_index": number, "content_index": 0}


def _numbered(events: list[Event]) -> list[Event]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]
