"""The tool of ``bench.crewai``: a class in a module, so that CrewAI's checkpoints can name it."""

import json
from urllib.request import Request, urlopen

from crewai.tools import BaseTool


class Act(BaseTool):
    """Does something that can be counted."""

    name: str = "act"
    description: str = "Do something"
    port: int = 0

    def _run(self, what: str) -> str:
        data = json.dumps({"what": what}).encode()
        request = Request(f"http://127.0.0.1:{self.port}/act", data, {"content-type": "application/json"})
        with urlopen(request) as answer:
            answer.read()
        return f"{what} is done"
