"""An agent that knows nothing of Holdfast: a growing conversation over the standard library's HTTP, every other answer streamed.

It writes each answer's digest to ``answers.txt``. ``PAUSE_AFTER`` is the call after which it waits for ever; ``STREAMS``
is all, none or odd; ``TWIST`` the call whose question is another one.
"""

import hashlib
import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

BASE = os.environ["OPENAI_BASE_URL"]
KEY = os.environ.get("OPENAI_API_KEY", "none")
PAUSE_AFTER = int(os.environ.get("PAUSE_AFTER", "-1"))
STREAMS = os.environ.get("STREAMS", "odd")
TWIST = int(os.environ.get("TWIST", "-1"))


def ask(messages: list[dict[str, str]], stream: bool) -> str:
    body = json.dumps({"model": "scripted", "messages": messages, "stream": stream}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(f"{BASE}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        if not stream:
            return str(json.load(response)["choices"][0]["message"]["content"])
        text = ""
        for line in response:
            data = line.decode().removeprefix("data: ").strip()
            if not data:
                continue
            (choice,) = json.loads(data)["choices"]
            text += choice["delta"].get("content") or ""
            if choice["finish_reason"]:  # as some SDKs do: what comes after the last event is not read
                break
        return text


def main() -> None:
    Path("agent.pid").write_text(str(os.getpid()))
    messages: list[dict[str, str]] = []
    with Path("answers.txt").open("a") as answers:
        for number in range(int(sys.argv[1])):
            question = f"Part {number}" + (", differently" if number == TWIST else "")
            messages.append({"role": "user", "content": question})
            try:
                text = ask(messages, STREAMS == "all" or (STREAMS == "odd" and number % 2 == 1))
            except urllib.error.HTTPError as error:
                sys.stderr.write(f"{error.code} {error.read().decode()}\n")
                sys.exit(5)
            messages.append({"role": "assistant", "content": text})
            answers.write(f"{number} {hashlib.sha256(text.encode()).hexdigest()}\n")
            answers.flush()
            if number == PAUSE_AFTER:
                Path("paused").touch()
                time.sleep(600)


if __name__ == "__main__":
    main()
