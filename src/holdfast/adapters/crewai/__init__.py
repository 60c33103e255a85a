"""CrewAI: crews, flows and agents whose model calls and tool calls are steps of a run.

::

    from holdfast.adapters.crewai import durable

    durable(crew, run="research", effects={"search": "read"}).kickoff(inputs={"topic": "kelp"})

The program builds its crew as ever and calls this again after a crash: what was answered and done is not asked and done
again, and the crew goes on in the middle of its task. ``HoldfastPersistence`` keeps the states of flows under ``@persist``.
"""

from holdfast.adapters.shared.journaled_calls import not_installed

try:
    from holdfast.adapters.crewai.durable_crew import Durable, durable
    from holdfast.adapters.crewai.flows import HoldfastPersistence
except ImportError as error:
    raise not_installed("holdfast.adapters.crewai", "crewai", error) from error

__all__ = ["Durable", "HoldfastPersistence", "durable"]
