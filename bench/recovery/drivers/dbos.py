"""DBOS: the plain loop as a ``@DBOS.workflow``, whose model calls and tools are ``@DBOS.step``s.

Started again with the same workflow id, ``DBOS.launch`` recovers the workflow from its last completed step. Its documentation says
that a step may be executed more than once if it is cut off.
"""

import os

import openai
from dbos import DBOS, SetWorkflowID

from bench.recovery.drivers.plain_loop import asking, work
from bench.recovery.tools import TOOLS

if __name__ == "__main__":
    DBOS(config={"name": "report", "system_database_url": "sqlite:///dbos.sqlite", "log_level": "ERROR"})
    client = openai.OpenAI(base_url=os.environ["RECOVERY_PROVIDER"], max_retries=0)
    ask = DBOS.step()(asking(client))
    tools = [DBOS.step()(tool) for tool in TOOLS]

    @DBOS.workflow()
    def report() -> str:
        return work(ask, tools)

    DBOS.launch()
    with SetWorkflowID("report"):
        DBOS.start_workflow(report).get_result()
    DBOS.destroy()
