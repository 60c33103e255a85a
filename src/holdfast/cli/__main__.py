"""``python -m holdfast.cli``: the command line, where ``holdfast`` is not on the path."""

from holdfast.cli import main

if __name__ == "__main__":
    main()
