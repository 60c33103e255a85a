"""The ``holdfast`` command line: one file per command.

``app`` finds the command and turns every error into ``error:``, ``hint:`` and an exit code. A command asks
the store handle, arranges ``views`` into ``blocks``, and passes them to ``output.render``, the only module
that prints.
"""


def main(argv: list[str] | None = None) -> None:
    """Run a command line (by default the one of this process) and exit with its code."""
    from holdfast.cli.app import app

    app.main(argv)
