"""The command ``holdfast``, as a script."""

from holdfast.cli import main

if __name__ == "__main__":
    main()
