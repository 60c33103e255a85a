"""An agent to be killed: ``program.py KIND WAY``."""

import os
import sys

from tests.adapters.smolagents.scripted import EFFECTS, make_agent

import holdfast
from holdfast.adapters.smolagents import durable

if __name__ == "__main__":
    kind, way = sys.argv[1:]
    with holdfast.run("agent") as run:
        agent = make_agent(kind, os.environ["PROVIDER"], stream_outputs=way == "streamed")
        run.finish(durable(agent, effects=EFFECTS).run("go"))
