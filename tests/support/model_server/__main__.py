"""``python -m tests.support.model_server``: the scripted provider by itself, until it is told to stop."""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from tests.support.model_server.provider import Provider
from tests.support.model_server.script import Script


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.model_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--port-file", type=Path, help="gets the port as soon as it listens")
    parser.add_argument("--record", type=Path, help="gets a JSON line for every request and every token sent")
    parser.add_argument("--script", default="{}", help='JSON, e.g. {"flavour": "llamacpp", "drip_ms": 20}')
    options = parser.parse_args()
    script = Script()
    script.tell(json.loads(options.script))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Provider(script, port=options.port, record=options.record) as provider:
        if options.port_file is None:
            print(provider.base_url, flush=True)
        else:  # in one go: whoever waits for the file finds the port in it
            written = options.port_file.with_suffix(".tmp")
            written.write_text(str(provider.port))
            os.replace(written, options.port_file)
        signal.pause()


if __name__ == "__main__":
    main()
