"""The web server of the inspector: its routes, its errors, and how it listens.

A request is answered in a thread, since stores are blocking; followers of live events have threads of their
own. Every error is shown with what happened and what to do, as a page, as a part of one, or as JSON.
"""

import logging
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, urlencode

import uvicorn
from orjson import OPT_NON_STR_KEYS, JSONDecodeError, dumps, loads
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from holdfast import limits
from holdfast.api.store.store import Store
from holdfast.codec.secrets import masked_data
from holdfast.errors import (
    Corrupt,
    HoldfastError,
    Misuse,
    UnknownPoint,
    UnknownQuestion,
    UnknownRun,
    UnknownStep,
)
from holdfast.model.named_tuple import NamedTuple
from holdfast.ui.access import ANY_ADDRESS, Access
from holdfast.ui.acts import Actor, act_named, checked
from holdfast.ui.html import environment, static_url
from holdfast.ui.json_api import JsonApi
from holdfast.ui.live import Followers, check_there, follow_run, follow_store, seq_of
from holdfast.ui.openapi import openapi
from holdfast.ui.pages import Pages
from holdfast.ui.records import Records
from holdfast.ui.run_page import RunPage

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - `holdfast ui` refuses it without a token and TLS
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_SHUTDOWN_S: Final = 1
_NOT_THERE: Final = (UnknownRun, UnknownPoint, UnknownQuestion, UnknownStep)


class Options(NamedTuple):
    """How the page is served, and who looks at it."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    read_only: bool = False
    person: str = ""
    certificate: str | None = None
    key: str | None = None
    is_behind_proxy: bool = False
    store_option: str | None = None
    """The store as it was named on the command line, for programs that are started from the page."""


class Inspector:
    """The application over one store."""

    def __init__(self, store: Store, options: Options) -> None:
        self.store, self.options = store, options
        self.records, self.followers = Records(store), Followers()
        self.pages, self.run_page = Pages(store, self.records), RunPage(store, self.records)
        self.json = JsonApi(store, self.records, self.pages)
        self._templates = environment()

    def show(self, template: str, status: int = 200, /, **context: Any) -> HTMLResponse:
        """A page, or a part of one."""
        return HTMLResponse(
            self._templates.get_template(template).render(**self._common(), **context), status
        )

    def _common(self) -> dict[str, Any]:
        return {
            "store_url": self.store.url.removeprefix("sqlite:///"),
            "read_only": self.options.read_only,
            "person": self.options.person,
            "now": self.store.now(),
        }

    # -- pages -----------------------------------------------------------------------------------------------

    def page(self, name: str) -> Callable[[Request], Response]:
        """The handler of a page about all runs; ``?part=1`` gives only what changes in it."""
        maker: Callable[[Mapping[str, str]], dict[str, Any]] = getattr(self.pages, name)

        def handler(request: Request) -> Response:
            check_there(self.store)
            query = dict(request.query_params)
            template = f"{name}_part.html" if query.pop("part", "") else f"{name}.html"
            return self.show(template, nav=name, query=query, path=_path(request), **maker(query))

        return handler

    def run(self, request: Request) -> Response:
        """The page of a run, or one part of it."""
        check_there(self.store)
        run, query = request.path_params["run"], dict(request.query_params)
        part = query.pop("part", "")
        if part:
            template, shown = f"run/{part}.html", self.run_page.part(run, part, query)
            if request.headers.get("sec-fetch-dest") == "document":  # its link was opened in a tab of its own
                return self.show("part.html", nav="run", path=_path(request), inner=template, **shown)
            return self.show(template, **shown)
        return self.show("run.html", nav="run", query=query, path=_path(request), **self.run_page.page(run))

    async def live(self, request: Request) -> Response:
        """The events of a run, or of all runs, as they happen."""
        run = request.query_params.get("run")
        await self.followers.ask(check_there, self.store)
        if run is None:
            stream = follow_store(self.store, self.followers)
        else:
            await self.followers.ask(self.store.get, run)  # an unknown run is an error, not a stream
            given = request.headers.get("last-event-id", "")
            after = request.query_params.get("after", "0")
            if not after.isdecimal():
                raise Misuse(problem=f"after={after[:40]!r} is no number", advice="use a seq from 0")
            stream = follow_run(self.store, self.followers, run, seq_of(given) if given else int(after))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    def needs_count(self, _: Request) -> Response:
        """How many things need a person, for the badge in the navigation."""
        return _as_json({"needs": len(self.pages.needs())})

    # -- the API and the acts --------------------------------------------------------------------------------

    def api(self, request: Request) -> Response:
        """An answer of the API."""
        name = request.path_params["name"]
        if name == "openapi.json":
            return _as_json(openapi())
        check_there(self.store)
        return _as_json(self.json.get(name, dict(request.query_params)))

    def act_form(self, request: Request) -> Response:
        """The form of an act, with what the act would do."""
        name, given = request.path_params["act"], dict(request.query_params)
        check_there(self.store)
        if name == "more":
            return self.show("act_more.html", run=given.get("run", ""))
        return self.show("act.html", form=act_named(name).form(self.store, given))

    async def act(self, request: Request) -> Response:
        """Do an act, in the name of the person who looks at the page."""
        name = request.path_params["act"]
        if self.options.read_only:
            body = {
                "error": "ReadOnly",
                "problem": "this page is read-only",
                "hint": "start `holdfast ui` without it",
            }
            return _as_json(body, 403)
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/json":
            # A form of another site can send anything but this without asking first.
            raise Misuse(
                problem=f"an act is sent as application/json, not {kind[:60]!r}", advice='{"run": …}'
            )
        raw = await _body_of(request)
        try:
            given = checked(name, loads(raw))
        except JSONDecodeError as error:
            raise Misuse(problem=f"the body is not JSON: {error.msg}", advice='send {"run": …}') from None
        actor = Actor(self.options.person, self.options.store_option)
        await run_in_threadpool(check_there, self.store)  # what is written to a file that is gone, is gone
        done = await run_in_threadpool(act_named(name).do, self.store, given, actor)
        return _as_json({"told": done.told, "go": quote(done.go)})

    # -- errors ----------------------------------------------------------------------------------------------

    async def refused(self, request: Request, error: Exception) -> Response:
        """An error as the one who asked can read it."""
        status, problem, hint = _told(error)
        name = type(error).__name__
        if request.url.path.startswith(("/api/", "/live")):
            return _as_json({"error": name, "problem": problem, "hint": hint}, status)
        told = {"problem": problem, "hint": hint, "error": name, "status": status}
        if "part" in request.query_params:
            return self.show("problem_part.html", status, **told)
        return self.show("problem.html", status, nav="", path="/", **told)

    async def failed(self, request: Request, error: Exception) -> Response:
        """An error that is ours: it is told in the page, and written where the server was started."""
        logging.getLogger("holdfast.ui").error("%s failed", request.url.path, exc_info=error)
        return await self.refused(request, error)


async def _body_of(request: Request) -> bytes:
    """The body of a request. HTTPException 413 as soon as it is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limits.UI_BODY_BYTES_MAX:
            raise HTTPException(413, f"the request has more than {limits.UI_BODY_BYTES_MAX:,} bytes")
    return bytes(body)


def _told(error: Exception) -> tuple[int, str, str]:
    if isinstance(error, HTTPException):
        return error.status_code, error.detail, ""
    hint = getattr(error, "hint", "")
    if isinstance(error, _NOT_THERE):
        return 404, str(error), hint
    if isinstance(error, Misuse):
        return 400, str(error), hint
    if isinstance(error, Corrupt):
        return 500, str(error), hint
    if isinstance(error, HoldfastError):
        return 409, str(error), hint
    return 500, f"{type(error).__name__}: {error}", "the terminal of `holdfast ui` has the details"


def names_of(host: str) -> frozenset[str]:
    """The names under which a page that listens there may be asked for."""
    if host not in EVERYWHERE:
        return frozenset({host})
    return frozenset({ANY_ADDRESS, socket.gethostname().lower(), socket.getfqdn().lower()})


def make_app(store: Store, options: Options, port: int) -> Starlette:
    """The application, behind its access rules."""
    inspector = Inspector(store, options)
    hosts = None if options.is_behind_proxy else LOOPBACK | names_of(options.host)
    routes = [
        Route("/", inspector.page("home")),
        Route("/runs", inspector.page("runs")),
        Route("/search", inspector.page("search")),
        Route("/effects", inspector.page("effects")),
        Route("/memory", inspector.page("memory")),
        Route("/diff", inspector.page("diff")),
        Route("/run/{run:path}", inspector.run),
        Route("/live", inspector.live),
        Route("/needs-count", inspector.needs_count),
        Route("/api/acts/{act}", inspector.act, methods=["POST"]),
        Route("/api/{name}", inspector.api),
        Route("/act/{act}", inspector.act_form),
        Route("/static/{name}", _static),
    ]
    access = Middleware(
        Access,
        token=options.token,
        hosts=hosts,
        port=port,
        tls=options.certificate is not None or options.is_behind_proxy,
    )
    return Starlette(
        routes=routes,
        middleware=[access],
        exception_handlers=dict.fromkeys((HTTPException, HoldfastError, OSError), inspector.refused)
        | {Exception: inspector.failed},
    )


def _as_json(body: Any, status: int = 200) -> Response:
    return Response(
        dumps(masked_data(body), default=str, option=OPT_NON_STR_KEYS), status, media_type="application/json"
    )


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    found = files("holdfast.ui").joinpath("static", name)
    kind = _TYPES.get(name.rpartition(".")[2])
    if kind is None or not found.is_file():
        return PlainTextResponse("there is no such file\n", 404)
    is_current = request.url.path + "?" + request.url.query == static_url(name)
    kept = "public, max-age=31536000, immutable" if is_current else "no-cache"
    return Response(found.read_bytes(), media_type=kind, headers={"cache-control": kept})


def _path(request: Request) -> str:
    query = urlencode([(name, text) for name, text in request.query_params.multi_items() if name != "part"])
    return f"{request.url.path}?{query}" if query else request.url.path


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the server at once: it holds nothing that could be lost."""
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, self.handle_exit)
        yield


def listen(options: Options) -> socket.socket:
    """The socket to serve on. OSError if the port is taken."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((options.host, options.port))
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening


def url_of(options: Options, port: int) -> str:
    """The address to open, without the token."""
    scheme = "https" if options.certificate else "http"
    host = socket.gethostname() if options.host in EVERYWHERE else options.host
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def serve(store: Store, options: Options, listening: socket.socket) -> None:
    """Serve until a signal comes."""
    port = listening.getsockname()[1]
    config = uvicorn.Config(
        make_app(store, options, port),
        lifespan="off",
        ws="none",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=options.is_behind_proxy,
        timeout_graceful_shutdown=_SHUTDOWN_S,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
    )
    _Server(config).run(sockets=[listening])
