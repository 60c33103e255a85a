"""The program that is killed: ``program.py async|sync|streamed``. All of it is in ``team``, which children fork with."""

import sys

from tests.adapters.openai_agents.team import main

main(sys.argv[1])
