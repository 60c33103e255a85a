"""The hooks of a store and their deliveries, as they are shown. A secret is named and never shown."""

from holdfast.model.hooks import Delivery, Hook
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.value_text import one_line


class HookLine(NamedTuple):
    """One hook. ``target`` leaves out the path of a URL, which may be a secret."""

    id: str
    kind: str
    target: str
    on: tuple[str, ...]
    secret: str
    """Where the secret is: a variable or a file; empty if requests are not signed."""
    timeout_s: float
    children: bool
    added_at: float


def hook_line(hook: Hook, label: str) -> HookLine:
    """The hook as it is shown."""
    secret = f"env {hook.secret_env}" if hook.secret_env else hook.secret_file
    return HookLine(hook.id, hook.kind, label, hook.on, secret, hook.timeout_s, hook.children, hook.since)


def state_words(delivery: Delivery) -> str:
    """``delivered``; ``waiting after 2 tries: it answers 500``."""
    tries = "" if delivery.tries == 1 else f" after {delivery.tries} tries" if delivery.tries else ""
    why = f": {one_line(delivery.error)}" if delivery.error and delivery.state != "delivered" else ""
    return f"{delivery.state.replace('_', ' ')}{tries}{why}"
