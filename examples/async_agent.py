"""Three questions at once. Each is a step of its own; killed in the middle, only the unanswered are asked again.

python examples/async_agent.py
"""

import asyncio

import holdfast


async def ask_model(question: str) -> str:
    print(f"asking: {question}", flush=True)
    await asyncio.sleep(0.2)  # a model call
    return f"{len(question)} letters"


async def main() -> None:
    questions = ["What is kelp?", "Who eats it?", "What holds it to the rock?"]
    async with holdfast.run("kelp-questions", goal="Learn about kelp") as run:
        await run.plan(["ask everything at once", "join the answers"])
        answers = await asyncio.gather(*(run.step("ask", ask_model, q) for q in questions))
        await run.checkpoint({"answers": answers}, label="asked")
        await run.finish(dict(zip(questions, answers, strict=True)))
    for question, answer in run.result.items():
        print(f"{question} {answer}")


asyncio.run(main())
