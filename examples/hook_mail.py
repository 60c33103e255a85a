"""A command that turns a notice into a mail, with the standard library alone.

    holdfast hooks add --command "python examples/hook_mail.py outbox" --on needs-person,failed

The mail is a file in that directory. A repeated notice has the same id, so it becomes the same file. To send
it instead, end with ``smtplib.SMTP("localhost").send_message(mail)``.
"""

import json
import sys
from email.message import EmailMessage
from pathlib import Path

notice = json.load(sys.stdin)
mail = EmailMessage()
mail["Subject"] = f"[{notice['on']}] {notice['run']}"
mail["From"] = "agents@example.org"
mail["To"] = "ada@example.org"
mail["Message-ID"] = f"<{notice['id']}@example.org>"
lines = [notice["text"], ""]
for question in notice["questions"]:
    lines += [f"Question {question['id']}: {question['question']} ({question['answers']})"]
    lines += [f"About: {question['about']}"] if question["about"] else []
lines += ["", "What you can type:", *(f"  {command}" for command in notice["commands"])]
mail.set_content("\n".join(lines))

outbox = Path(sys.argv[1])
outbox.mkdir(parents=True, exist_ok=True)
(outbox / f"{notice['id']}.eml").write_bytes(bytes(mail))
