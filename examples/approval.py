"""An approval that may take days: the run asks, its process ends, a desk is notified, a person says yes.

    export DESK_SECRET=$(openssl rand -hex 32)
    python examples/approval.py desk &                        # prints its address
    DESK=http://127.0.0.1:PORT/ python examples/approval.py   # asks, parks and ends: nothing runs meanwhile
    curl -X POST http://127.0.0.1:PORT/yes/q1                 # days later
    python examples/approval.py                               # pays, once

What to kill: the agent, at any time, and the desk between two requests. The question is in the store, the
answer counts once, and money.txt gets one line.
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import holdfast


@holdfast.tool(effect="once", approve=lambda asked: f"Pay {asked['cents']} cents to {asked['to']}?")
def pay(to: str, cents: int) -> str:
    with Path("money.txt").open("a") as money:
        print(to, cents, file=money)
    return f"paid {to}"


def agent() -> None:
    desk = os.environ.get("DESK")
    if desk:
        holdfast.hook(desk, secret_env="DESK_SECRET", on=["needs-person"])  # for every run of this process
    with holdfast.run("bill", stops="suppress") as run:
        run.finish(pay("ada", 500_00))
    print(f"the run is {run.status}: {run.result or 'it waits for a person'}")


class Desk(BaseHTTPRequestHandler):
    """Takes signed notices, and the clicks of people. Here a click is a POST to /yes/QUESTION or /no/QUESTION."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        verb, _, question = self.path.strip("/").partition("/")
        try:
            if verb in {"yes", "no"}:
                holdfast.store().answer("bill", verb == "yes", question=question, by="the desk")
            else:
                notice = holdfast.read_webhook(dict(self.headers.items()), body, os.environ["DESK_SECRET"])
                print(notice["text"], flush=True)
        except holdfast.HoldfastError as refused:  # a bad signature, no such question, answered already
            self.send_error(400, type(refused).__name__)
            return
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Print nothing for each request."""


if sys.argv[1:] == ["desk"]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
    print(f"http://127.0.0.1:{server.server_address[1]}/", flush=True)
    server.serve_forever()
else:
    agent()
