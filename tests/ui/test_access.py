"""Who gets in: a token or its cookie, from our own pages, under our own name."""

import socket

import httpx
import pytest
from starlette.testclient import TestClient
from tests.ui.conftest import TOKEN, Served, serving
from tests.ui.runs import asking, finished

import holdfast
from holdfast.ui.server import Options, make_app, url_of


def test_without_the_token_nothing_is_shown(served: Served) -> None:
    """No page, no API, no live events; only what every inspector has, its style."""
    with httpx.Client(base_url=served.url) as stranger:
        for path in ("/", "/runs", "/run/x", "/api/runs", "/live", "/act/cancel", "/needs-count"):
            answer = stranger.get(path)
            assert answer.status_code == 401, path
            assert "token" in answer.text
        assert stranger.post("/api/acts/cancel", json={"run": "x"}).status_code == 401
        assert stranger.get("/static/page.css").status_code == 200


def test_the_token_in_the_first_url_becomes_a_cookie(served: Served) -> None:
    """It is not readable by scripts, not sent by other sites, and the token leaves the address."""
    with httpx.Client(base_url=served.url) as browser:
        first = browser.get(f"/runs?token={TOKEN}&status=running")
        assert (first.status_code, first.headers["location"]) == (303, "/runs?status=running")
        cookie = first.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert TOKEN not in cookie
        assert browser.get("/runs").status_code == 200


def test_the_first_url_leads_to_no_other_host(served: Served) -> None:
    """A path that begins with two slashes is a host to a browser."""
    with httpx.Client(base_url=served.url) as browser:
        first = browser.get(f"{served.url}//evil.example/?token={TOKEN}")
        assert (first.status_code, first.headers["location"]) == (303, "/evil.example/")


def test_the_cookie_behind_a_proxy_is_for_tls_alone(url: str) -> None:
    """The proxy ends TLS: the cookie must not travel without it."""
    with serving(holdfast.store(url), is_behind_proxy=True) as served:
        assert "secure" in httpx.get(f"{served.url}/?token={TOKEN}").headers["set-cookie"].lower()


@pytest.mark.parametrize("wrong", ["", "x", TOKEN[:-1], TOKEN + "x", "ö" * 24])
def test_a_wrong_token_is_refused(served: Served, wrong: str) -> None:
    """In the address, as a bearer and as a cookie."""
    with httpx.Client(base_url=served.url) as stranger:
        assert stranger.get("/", params={"token": wrong}).status_code == 401
        bearer = {"authorization": f"Bearer {wrong or '-'}".encode()}
        assert stranger.get("/", headers=bearer).status_code == 401  # type: ignore[arg-type]
        cookie = {"cookie": f"holdfast-{served.port}={wrong}".encode()}
        assert stranger.get("/", headers=cookie).status_code == 401  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "evil.example:80", "[::", "a b"]
)
def test_another_host_is_refused(served: Served, host: str) -> None:
    """A name of another site that was rebound to loopback reaches nothing, token or not."""
    with served.client() as client:
        assert client.get("/runs", headers={"host": host}).status_code in {400, 421}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:1234", "[::1]:80"])
def test_loopback_has_several_names(served: Served, host: str) -> None:
    """Each of them is ours, whatever the port: a tunnel may have changed it."""
    with served.client() as client:
        assert client.get("/runs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_site_cannot_act(served: Served, url: str, headers: dict[str, str]) -> None:
    """Not even with the cookie, which a browser would not send it."""
    asking(url)
    with served.client() as client:
        answer = client.post("/api/acts/answer", json={"run": "asks", "value": "yes"}, headers=headers)
        assert answer.status_code == 403
    assert holdfast.store(url).questions("asks")[0].pending_by == ""


def test_a_form_of_another_site_cannot_act(client: httpx.Client, url: str) -> None:
    """A plain form can send no JSON without the browser asking first, so only JSON acts."""
    asking(url)
    for sent in ({"data": {"run": "asks", "value": "yes"}}, {"content": b'{"run": "asks", "value": "yes"}'}):
        answer = client.post("/api/acts/answer", **sent)
        assert answer.status_code == 400
    assert holdfast.store(url).questions("asks")[0].pending_by == ""


def test_every_answer_says_what_a_browser_may_do(client: httpx.Client, url: str) -> None:
    """Pages, parts, errors and files: no script but ours, no frame, no guess about types."""
    finished(url)
    for path in (
        "/",
        "/run/done",
        "/run/done?part=rows",
        "/run/nope",
        "/api/runs",
        "/static/page.js",
        "/nothing",
    ):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        if not path.startswith("/static/"):
            assert headers["cache-control"] == "no-store"


def test_read_only_refuses_every_act(url: str) -> None:
    """And offers none."""
    asking(url)
    with serving(holdfast.store(url), read_only=True) as served, served.client() as client:
        answer = client.post("/api/acts/answer", json={"run": "asks", "value": "yes"})
        assert (answer.status_code, answer.json()["error"]) == (403, "ReadOnly")
        assert "data-act=" not in client.get("/").text
        assert "data-act=" not in client.get("/run/asks").text


def test_two_inspectors_on_one_machine_have_two_cookies(url: str) -> None:
    """A browser sends a cookie to every port of a host."""
    with serving(holdfast.store(url)) as one, serving(holdfast.store(url)) as two:
        cookies = [httpx.get(f"{each.url}/?token={TOKEN}").headers["set-cookie"] for each in (one, two)]
        assert cookies[0].partition("=")[0] != cookies[1].partition("=")[0]


def test_static_files_stay_in_their_folder(client: httpx.Client) -> None:
    """No path leads out of it, and no Python is served."""
    for path in (
        "/static/..%2fserver.py",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/server.py",
    ):
        assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("192.0.2.7:8080", 401),
        ("[2001:db8::7]:8080", 401),
        (socket.gethostname(), 401),
        ("evil.example", 421),
    ],
)
def test_a_page_for_other_machines_is_asked_for_by_address_or_name(url: str, host: str, status: int) -> None:
    """A name that was rebound is refused. Before, ``--host 0.0.0.0`` refused everybody but this machine."""
    app = make_app(holdfast.store(url), Options(host="0.0.0.0", token=TOKEN, certificate="c.pem"), 8080)
    assert TestClient(app).get("/", headers={"host": host}).status_code == status


def test_the_address_of_a_page_for_other_machines_can_be_opened() -> None:
    """0.0.0.0 is no place to go to."""
    options = Options(host="0.0.0.0", token=TOKEN, certificate="c.pem")
    assert url_of(options, 8080) == f"https://{socket.gethostname()}:8080/"
