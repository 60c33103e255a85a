"""The program that is killed: ``program.py async|sync|streamed``. All of it is in ``team``, which children fork with."""

import sys

from tests.frameworks.openai_agents.team import main

main(sys.argv[1])
