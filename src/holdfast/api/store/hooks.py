"""``store.hooks``: the hooks of a store and their deliveries; and ``holdfast.hook``, those of a program."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orjson import JSONDecodeError, loads

from holdfast.clock import SystemClock
from holdfast.core.hooks.signature import TOLERANCE_S, check
from holdfast.engine.hooks import declared, delivery_records, store_hooks
from holdfast.engine.hooks.senders import inability, send
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import BadSignature
from holdfast.limits import HOOK_TIMEOUT_S
from holdfast.model.hooks import OCCASIONS, TEST, Delivery, Hook, Notice, Sent
from holdfast.model.markers import Neutral

if TYPE_CHECKING:
    import builtins


def hook(
    target: "str | Sequence[str] | Callable[[Notice], Any]",
    *,
    on: Iterable[str] = OCCASIONS,
    secret_env: str = "",
    secret_file: str = "",
    timeout_s: float = HOOK_TIMEOUT_S,
    children: bool = False,
) -> Hook:
    """Notify ``target`` about every run that this process enters from now on.

    ``target`` is a function that takes a ``Notice`` (it may be ``async``), the URL of a webhook, or a list of
    words that starts a command. ``on`` are the occasions: ``needs-person``, ``finished``, ``failed``,
    ``in-doubt``. The secret of a webhook is in an environment variable or a file. Declaring it again replaces
    it. Raises Misuse.
    """
    return declared.declare(Hook(target, tuple(on), secret_env, secret_file, timeout_s, children))


def read_webhook(
    headers: Mapping[str, str], body: bytes, secret: str, *, tolerance_s: float = TOLERANCE_S
) -> dict[str, Any]:
    """The notice in a request that a hook sent, for a receiver. Raises BadSignature if it is not genuine."""
    id_ = check(secret, headers, body, SystemClock.wall(), tolerance_s)
    try:
        content = loads(body)
    except JSONDecodeError:
        raise BadSignature(problem="is signed, and has no JSON") from None
    if not isinstance(content, dict) or content.get("id") != id_:
        raise BadSignature(problem="is signed, and is no notice")
    return content


class StoreHooks(Neutral):
    """The hooks of one store."""

    def __init__(self, session: StoreSession) -> None:
        self._session = session

    def add(
        self,
        target: str | Sequence[str] = "",
        *,
        on: Iterable[str] = OCCASIONS,
        secret_env: str = "",
        secret_file: str = "",
        url_env: str = "",
        timeout_s: float = HOOK_TIMEOUT_S,
        children: bool = False,
    ) -> Hook:
        """Add a webhook or a command. Every process that works on the store's runs delivers to it.

        ``url_env`` names the variable with the URL, if the URL is a secret. Notices begin with what happens
        from now on. Durable when it returns. Raises Misuse.
        """
        target = target if isinstance(target, str) else tuple(target)
        made = Hook(target, tuple(on), secret_env, secret_file, timeout_s, children, url_env=url_env)
        return store_hooks.add(self._session, made)

    def list(self) -> "builtins.list[Hook]":
        """The hooks of the store, oldest first."""
        return store_hooks.find_all(self._session.store)

    def remove(self, id: str) -> Hook:  # noqa: A002 - what people call it
        """Remove a hook and what it has not delivered yet. Durable when it returns. Raises UnknownHook."""
        return store_hooks.remove(self._session, id)

    def test(self, id: str) -> Sent:  # noqa: A002
        """Send a notice that says that it is a test, once. Nothing is recorded. Raises UnknownHook."""
        found = store_hooks.get(self._session.store, id)
        why = store_hooks.refusal(self._session.store, found) or inability(found)
        if why:
            return Sent(good=False, error=why)
        now = self._session.clock.wall()
        store = self._session.store.url
        text = f"this is a test of hook {id}: no run is affected"
        notice = Notice(f"notice_test_{id}_{now:.3f}", TEST, TEST, text, now, "", "", store=store)
        return send(found, notice, now)

    def log(self, run: str | None = None) -> "builtins.list[Delivery]":
        """What was delivered and what waits, oldest notice first: of one run, or of all."""
        session = self._session
        return delivery_records.deliveries(session.store, session.clock.wall(), run or "")

    def label(self, hook: Hook) -> str:
        """A hook as people may see it: the path of a URL is left out, since it may be a secret."""
        return declared.label_of(hook)
