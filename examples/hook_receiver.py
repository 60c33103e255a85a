"""A webhook receiver: checks the signature of each notice, drops repetitions, and posts it to a Slack channel.

    export HOOK_SECRET=$(openssl rand -hex 32)
    export SLACK_URL=https://hooks.slack.com/services/…     # the channel's "incoming webhook"
    python examples/hook_receiver.py 8787 &
    holdfast hooks add http://127.0.0.1:8787/ --secret-env HOOK_SECRET --on needs-person,failed,in-doubt

It prints the address that it serves. Slack gets one message for each notice, with the commands to type.
"""

import json
import os
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import holdfast

seen: set[str] = set()


def post_to_slack(notice: dict[str, Any]) -> None:
    """One message: a sentence, and what to type."""
    commands = "\n".join(notice["commands"])
    message = {"text": f"{notice['text']}\n```{commands}```"}
    request = urllib.request.Request(
        os.environ["SLACK_URL"],
        data=json.dumps(message).encode(),
        headers={"content-type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()


class Handler(BaseHTTPRequestHandler):
    """Answers 204 when Slack has the message. On any other answer Holdfast sends the notice again later."""

    def do_POST(self) -> None:
        """Take one notice."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            notice = holdfast.read_webhook(dict(self.headers.items()), body, os.environ["HOOK_SECRET"])
        except holdfast.BadSignature as refused:
            self.send_error(400, str(refused))
            return
        if notice["id"] not in seen:
            try:
                post_to_slack(notice)
            except OSError as error:
                self.send_error(502, str(error))
                return
            seen.add(notice["id"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Print nothing for each request."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 0), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}/", flush=True)
    server.serve_forever()
