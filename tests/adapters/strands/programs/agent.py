"""A Strands agent in a run, in one of the ways to call it: the script that is killed."""

import sys

from tests.adapters.strands import scripted

if __name__ == "__main__":
    print(scripted.MODES[sys.argv[1]](scripted.made))
