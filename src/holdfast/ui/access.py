"""Who may see the page and act on it, and what a browser may do with it.

The first URL carries a random token; it is exchanged for a cookie that scripts cannot read and that other
sites cannot send. Programs send the token as a bearer. A page of another site cannot reach this server
through the browser: the Host must be ours (a name that was rebound to loopback is refused), what acts must
come from our own pages, and nothing is loaded from elsewhere. What a model wrote is text.
"""

from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from secrets import compare_digest, token_urlsafe
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
ANY_ADDRESS: Final = "*"
"""Among the hosts: any address, for a server that listens on all of its machine's."""
_SAFE: Final = frozenset({"GET", "HEAD"})
_UNKNOWN: Final = (
    "This page needs the token that `holdfast ui` printed.\n"
    "Open the URL from your terminal once more: http://…/?token=…\n"
)


class Access:
    """Lets requests through that may be answered, and marks the answers. It is the outermost layer."""

    def __init__(
        self, app: ASGIApp, *, token: str, hosts: frozenset[str] | None, port: int, tls: bool
    ) -> None:
        """``hosts`` are the names under which the page may be asked for; None behind a proxy, which checks."""
        self._app, self._token, self._hosts = app, token, hosts
        self._session = sha256(f"holdfast session {port} {token}".encode()).hexdigest()
        """Made of the token, so that a page that is open rejoins a server that was started again with it."""
        self._cookie = f"holdfast-{port}"
        """Cookies do not know ports: two inspectors on one machine must not share one."""
        self._tls = tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, marked)

    def _refusal(self, scope: Scope) -> Response | None:
        # Some servers let raw bytes pass, and nothing behind them can read those.
        if not scope["query_string"].isascii():
            return PlainTextResponse("the query of this address is not percent-encoded\n", 400)
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts is not None and not self._is_ours(_name(host)):
            return PlainTextResponse(f"this server is not {_shown(host)}\n", 421)
        if scope["method"] not in _SAFE and not _is_own(headers, host):
            return PlainTextResponse("this request came from another site, and was refused\n", 403)
        if scope["path"].startswith("/static/"):
            return None
        return self._admission(scope, headers)

    def _is_ours(self, name: str) -> bool:
        assert self._hosts is not None
        # An address cannot be rebound: only a name can lead to us without our knowing it.
        return name in self._hosts or (ANY_ADDRESS in self._hosts and _is_address(name))

    def _admission(self, scope: Scope, headers: Headers) -> Response | None:
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if given and _same(given, self._token):
            return None
        if _same(self._cookie_of(headers), self._session):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = next((value for name, value in query if name == "token"), "")
        if token and _same(token, self._token) and scope["method"] in _SAFE:
            # The token must not stay in the address, where a screenshot or the history shows it.
            left = urlencode([(name, value) for name, value in query if name != "token"])
            path = f"/{scope['path'].lstrip('/')}"  # with two slashes it would be another host
            response = RedirectResponse(f"{path}?{left}" if left else path, 303)
            response.set_cookie(
                self._cookie, self._session, httponly=True, samesite="strict", secure=self._tls, path="/"
            )
            return response
        return PlainTextResponse(_UNKNOWN, 401, {"www-authenticate": "Bearer"})

    def _cookie_of(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value


def new_token() -> str:
    """A token for the first URL."""
    return token_urlsafe(24)


def _same(given: str, wanted: str) -> bool:
    return compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _name(host: str) -> str:
    """The name in a Host header, without the port; empty if it is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_own(headers: Headers, host: str) -> bool:
    """Whether a request that acts comes from our own page, or from a program, which names no site."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in {"same-origin", "none"}:
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _shown(host: str) -> str:
    return ascii(host[:100])
