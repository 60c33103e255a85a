"""An agent that relies on a file it was given and on one it makes: killed wherever, it never takes its own work for tampering."""

from pathlib import Path

import holdfast


def draft(text: str) -> int:
    return Path("report.md").write_text(text)


with holdfast.run("agent") as run:
    rates = Path("rates.csv")
    if not rates.exists():
        rates.write_text("GR,6.1\n")
    run.depends_on("rates.csv")
    run.step("draft", draft, "Greece pays 6.1 %")
    run.artifact("report.md")
    run.step("read", Path("report.md").read_text)
    run.finish(len(run.resume_plan().pauses))
