"""The example on Microsoft Agent Framework runs offline, and survives what it tells its reader to do."""

from pathlib import Path

from tests.support.framework_examples import check_that_it_goes_on


def test_the_example_is_killed_and_goes_on(tmp_path: Path) -> None:
    """With a real SIGKILL while it reads: nothing finished is done again, and one report is published."""
    check_that_it_goes_on("agent_framework_agent.py", tmp_path)
