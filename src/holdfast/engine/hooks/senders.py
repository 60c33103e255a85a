"""Sends one notice to one hook: an HTTP request, a process, or a call of a function.

Each try is bounded in time and never raises: it returns how it ended. A webhook is sent with the standard
library. No redirect is followed, because a signed request is meant for one place. A command is started
without a shell. A function gets a thread of its own, and its errors are logged.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Thread, Timer
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast._version import __version__
from holdfast.core.hooks.notice_json import notice_json
from holdfast.core.hooks.signature import ID, SIGNATURE, TIMESTAMP, sign
from holdfast.engine.hooks.declared import label_of, url_problem
from holdfast.engine.log import log
from holdfast.engine.run.store_session import masked
from holdfast.errors import HoldfastError
from holdfast.model.hooks import Hook, Notice, Sent

_ANSWER_BYTES_MAX: Final = 4_096
_ERROR_CHARS_MAX: Final = 300
_SECRET_BYTES_MAX: Final = 4_096
_GONE: Final = 410
_NOT_PASSED_ON: Final = ("HOLDFAST_RUN",)
"""A program that the command starts must not take the run of this process for its own."""


class CannotSend(Exception):
    """This process cannot send to this hook; another one may be able to. The text says why."""


def inability(hook: Hook) -> str:
    """Why this process cannot send to this hook, while another one may be able to; empty if it can."""
    try:
        if isinstance(hook.target, str):
            url_of(hook)
            secret_of(hook)
    except CannotSend as reason:
        return str(reason)
    return ""


def send(hook: Hook, notice: Notice, now: float) -> Sent:
    """Try to deliver a notice once. Never raises."""
    if callable(hook.target):
        return _call(hook, hook.target, notice)
    if isinstance(hook.target, str):
        return _guarded(lambda: _post(hook, url_of(hook), secret_of(hook), notice, now))
    words = hook.target
    return _guarded(lambda: _start(hook, words, notice))


def _guarded(try_: Callable[[], Sent]) -> Sent:
    try:
        return try_()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the end of this try
        text = str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
        return Sent(good=False, error=masked(text)[:_ERROR_CHARS_MAX])


# -- webhooks ------------------------------------------------------------------------------------------------


def url_of(hook: Hook) -> str:
    """The URL of a webhook. CannotSend if the variable that has it is not set here, or holds none."""
    assert isinstance(hook.target, str)
    url = os.environ.get(hook.url_env, "") if hook.url_env else hook.target
    problem = url_problem(url)
    if problem and hook.url_env:
        raise CannotSend(f"{hook.url_env} is not set here" if not url else f"{hook.url_env}: {problem}")
    return url


def secret_of(hook: Hook) -> str:
    """The secret that signs a webhook; empty if it is not signed. CannotSend if it is not here."""
    if hook.secret_env:
        secret = os.environ.get(hook.secret_env, "")
        if not secret:
            raise CannotSend(f"the secret is in {hook.secret_env}, which is not set here")
        return secret
    if not hook.secret_file:
        return ""
    try:
        with Path(hook.secret_file).open(encoding="utf-8") as file:
            secret = file.read(_SECRET_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotSend(f"the secret cannot be read: {error}") from None
    if not secret:
        raise CannotSend(f"the secret cannot be read: {hook.secret_file} is empty")
    return secret


def _post(hook: Hook, url: str, secret: str, notice: Notice, now: float) -> Sent:
    import http.client

    body = notice_json(notice)
    at_s = int(now)
    headers = {
        "content-type": "application/json",
        "user-agent": f"holdfast/{__version__}",
        ID: notice.id,
        TIMESTAMP: str(at_s),
    }
    if secret:
        headers[SIGNATURE] = sign(secret, notice.id, at_s, body)
    parts = urlsplit(url)
    cls = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = cls(parts.hostname or "", parts.port, timeout=hook.timeout_s)
    # The timeout of a socket is for each read: a receiver that sends a byte now and then would never end it.
    watch = Timer(hook.timeout_s, _cut_off, (connection,))
    watch.name, watch.daemon = "holdfast-hooks-timer", True
    watch.start()
    try:
        connection.request("POST", _path_of(url), body, headers)
        answer = connection.getresponse()
        answer.read(_ANSWER_BYTES_MAX)
        return _judged(answer.status, answer.getheader("retry-after"))
    finally:
        watch.cancel()
        connection.close()


def _path_of(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _cut_off(connection: Any) -> None:
    """End a request that takes too long: the read that waits gets an error."""
    import socket

    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:  # it has ended just now
            return


def _judged(status: int, retry_after: str | None) -> Sent:
    if 200 <= status < 300:
        return Sent(good=True, code=status)
    if 300 <= status < 400:
        return Sent(good=False, code=status, error="it answers with a redirect, which is not followed")
    asked = retry_after or ""
    later_s = float(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 9 else 0.0
    return Sent(
        good=False, code=status, error=f"it answers {status}", is_final=status == _GONE, later_s=later_s
    )


# -- commands ------------------------------------------------------------------------------------------------


def _start(hook: Hook, words: Sequence[str], notice: Notice) -> Sent:
    import subprocess

    try:
        process = subprocess.Popen(  # noqa: S603 - starting it is the purpose, and there is no shell
            list(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=hook.cwd or None,
            env=_environment(notice),
            start_new_session=True,
        )
    except OSError as error:
        return Sent(good=False, error=f"{words[0]} cannot be started: {error.strerror}")
    with process:
        try:
            _, errors = process.communicate(notice_json(notice), timeout=hook.timeout_s)
        except subprocess.TimeoutExpired:
            _end_group(process)
            return Sent(good=False, error=f"it did not end within {hook.timeout_s:g} seconds, and was killed")
    if process.returncode == 0:
        return Sent(good=True, code=0)
    said = masked(errors.decode("utf-8", "replace").strip())[-_ERROR_CHARS_MAX:]
    return Sent(good=False, code=process.returncode, error=said or f"exit code {process.returncode}")


def _end_group(process: Any) -> None:
    """Kill a command and what it started."""
    import signal

    try:
        os.killpg(process.pid, signal.SIGKILL)  # its own group: start_new_session
    except (OSError, AttributeError):
        process.kill()
    process.stderr.close()


def _environment(notice: Notice) -> Mapping[str, str]:
    told = {
        "HOLDFAST_NOTICE_ID": notice.id,
        "HOLDFAST_NOTICE_ON": notice.on,
        "HOLDFAST_NOTICE_WHAT": notice.what,
        "HOLDFAST_NOTICE_RUN": notice.run,
        "HOLDFAST_NOTICE_STATUS": notice.status,
        "HOLDFAST_NOTICE_TEXT": notice.text,
        "HOLDFAST_NOTICE_STORE": notice.store,
    }
    return {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON} | told


# -- functions -----------------------------------------------------------------------------------------------


def _call(hook: Hook, function: Callable[[Notice], Any], notice: Notice) -> Sent:
    ended: list[BaseException | None] = []

    def work() -> None:
        try:
            returned = function(notice)
            if hasattr(returned, "__await__"):
                import asyncio

                asyncio.run(_awaited(returned))
        except BaseException as error:  # noqa: BLE001 - the program's own code, in a thread of ours
            ended.append(error)
        else:
            ended.append(None)

    # Not one of "our" threads by its name: the program's code runs in it, and may change the state.
    thread = Thread(target=work, name="hook-function", daemon=True)
    thread.start()
    thread.join(hook.timeout_s)
    if not ended:
        return Sent(good=False, error=f"it did not return within {hook.timeout_s:g} seconds")
    error = ended[0]
    if error is None:
        return Sent(good=True)
    log().warning(
        "hook %s failed on notice %s of run %s", label_of(hook), notice.id, notice.run, exc_info=error
    )
    return Sent(good=False, error=masked(f"{type(error).__name__}: {error}")[:_ERROR_CHARS_MAX])


async def _awaited(returned: Any) -> None:
    await returned
