"""Remembers, supersedes, repeats, edits, recalls and leaves its discoveries behind: killed anywhere, run again."""

import os
import sys

os.environ["HOLDFAST_EMBEDDER"] = "none"  # vectors are only read, and take their time to load
import holdfast

with holdfast.run("agent", goal="Learn about the cache") as run:
    memory = holdfast.store().memory
    run.remember("The cache TTL is 300 seconds")
    run.remember("The cache TTL is 30 seconds")
    run.remember("On Friday the deploy happens", tags=["ops"])
    run.remember("The deploy happens on Friday", tags=["calendar"])
    run.step("edit", lambda: memory.remember("Ada is on call", key="oncall") and None)
    run.step("again", lambda: memory.edit("oncall", text="Grace is on call", scope="") and None)
    found = [one.fact.text for one in run.recall("how long does the cache keep things?")]
    run.discover("Evictions happen at night")
    told = run.context()
    run.finish(found, remember=True)
sys.stdout.write("\n".join(found))
