"""An agent whose store has a webhook: it asks a person, works, and finishes."""

import os

import holdfast

store = holdfast.store()
if not store.hooks.list():
    store.hooks.add(url_env="HOOK_URL", timeout_s=20.0)
with holdfast.run("agent", stops="suppress") as run:
    run.step("look", len, "sky")
    if run.ask("Go on?", returns=bool):
        run.step("write", len, os.fspath("x"))
    run.finish("done")
raise SystemExit(0 if run.status == "finished" else 3)
