"""CrewAI: crews, flows and agents whose model calls and tool calls are steps of a run.

::

    from holdfast.adapters.crewai import durable

    durable(crew, run="research", effects={"search": "read"}).kickoff(inputs={"topic": "kelp"})

The program builds its crew as ever and calls this again after a crash: what was answered and done is not asked and done
again, and the crew goes on in the middle of its task. ``HoldfastPersistence`` keeps the states of flows under ``@persist``.
"""

from holdfast.adapters.seams import not_installed

try:
    from holdfast.adapters.crewai.flows import HoldfastPersistence
    from holdfast.adapters.crewai.kickoffs import Durable, durable
except ImportError as error:
    raise not_installed("holdfast.adapters.crewai", "crewai", error) from error

__all__ = ["Durable", "HoldfastPersistence", "durable"]
