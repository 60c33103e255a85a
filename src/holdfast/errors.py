"""Every error Holdfast raises, in one tree.

An error says what was refused, on which thing, the state that refused it, and (as ``hint``) what to do next.
Its facts are attributes, it can be pickled to another process, and a traceback prints the hint below it.

::

    HoldfastError (Exception)            something was refused; the program may handle it
    ├── Misuse                           the call itself is wrong
    │   ├── BadName                      a run, step, label or agent name that cannot be used
    │   ├── BadUrl                       a store URL that cannot be parsed
    │   ├── Unjournaled                  a client or an endpoint whose calls no journal records
    │   ├── AdapterNotInstalled          an adapter whose framework is not installed
    │   ├── BadOption                    an option with a value outside its choices
    │   ├── BadPrices                    a price table that cannot be parsed
    │   ├── NotStorable                  a value that cannot be stored
    │   ├── StateChanged                 a state that another thread changed while it was being saved
    │   ├── TooLarge                     a value or batch beyond a documented limit
    │   │   └── ArtifactTooLarge         a file that is too large to copy
    │   ├── PathRefused                  a path that leads out of the run's workspace
    │   ├── BadHandoff                   a document that is not a handoff, or was changed
    │   ├── BadAnswer                    an answer that does not fit the question
    │   ├── BadSignature                 a webhook that was not signed with the secret, or was changed
    │   ├── UnknownHook                  the store has no such hook
    │   ├── NoCurrentRun                 a tool or current() outside of a run's context
    │   ├── NeverAwaited                 a call of an async run without await
    │   ├── ArgumentChanged              a step changed what it was given; only if strict
    │   ├── ForkedHandle                 a handle carried through os.fork
    │   └── HandleClosed                 a handle used after it was closed
    ├── FileFailed (OSError)             the system refused an operation on a file of the run's
    ├── OutOfDescriptors (OSError)       the process has too many files open to load a part of Holdfast
    ├── RunRefused                       the run's state does not allow this
    │   ├── UnknownRun
    │   ├── RunExists
    │   │   └── ImportClash              the store has another run of that id
    │   ├── RunHeld                      another attempt is alive
    │   ├── RunFinished
    │   ├── RunCancelled
    │   ├── RunOver                      it is over, and cannot be cancelled
    │   ├── ForeignCommand               its recorded command is foreign and not trusted
    │   ├── RunSealed                    it must not act here: moved, handed over, a copy, or incomplete
    │   ├── Undeliverable                a message for a run that no longer receives any
    │   ├── RunHasForks                  other runs borrow its history
    │   ├── ChainMoved                   another writer has continued the same checkpoint
    │   ├── InputsChanged                other inputs or another goal under the same id
    │   ├── UnknownPoint                 no such point, event or label in the run
    │   ├── AmbiguousLabel               several points have it
    │   ├── LabelTaken                   another point has it, or the program gave it
    │   ├── PointPruned                  a point that was recorded, and then removed
    │   ├── PruneMismatch                pruning would have changed what it must keep
    │   ├── UnknownArtifact              no such file or version, or no copy of it
    │   ├── UnknownStep                  no such step to resolve
    │   ├── AlreadyResolved              the step's outcome is known
    │   ├── UnknownQuestion              the run has no such question
    │   └── AlreadyAnswered
    ├── StoreError                       the store refused
    │   ├── StoreUnavailable             an I/O failure: the outcome is unknown
    │   ├── StoreBusy                    another process kept the database locked too long
    │   │   └── Throttled                the service asked for a retry later, for too long
    │   ├── StoreMissing                 the database or table of a server does not exist
    │   ├── AccessDenied                 the server refuses this process, or this operation
    │   ├── DiskFull
    │   ├── StoreReadOnly
    │   ├── NotAStore                    a file that is not ours
    │   ├── NewerFormat                  written by a newer Holdfast
    │   ├── KeyRefused                   an encrypted store without its key, or a plain one with a key
    │   ├── NotDurable                   a network file system under an embedded store
    │   └── Corrupt                      bytes that fail their checksum
    │       └── AcknowledgedLost         a journal that is shorter than its acknowledged head
    ├── ExportError                      a file or directory that cannot be written, or cannot be imported
    │   ├── NotAnExport
    │   ├── NewerExport                  written by a newer Holdfast
    │   ├── DamagedExport                cut off, changed, or incomplete
    │   └── ExportTaken                  for a single use, and already used
    ├── ThreadsUnreadable                threads of another framework's saver that cannot be imported
    ├── UnknownFact                      memory has no such fact
    ├── EmbedderUnavailable              the embedder gives no vectors
    ├── CommandFailed                    the command behind a proxy has failed
    ├── UnusableAnswer                   a provider's response without an answer
    ├── InvalidHistory                   a conversation that providers refuse
    ├── ValueUnreadable                  recorded bytes whose type is gone or has changed
    ├── SecretMissing                    a recorded reference to a secret that this process does not have
    ├── ReplayedFailure                  a recorded failure whose exception class cannot be found
    ├── EffectUnknown                    in_doubt="tell": it is unknown whether the effect happened
    ├── EffectNotMade                    unclaimed="tell": it may be a recorded effect
    ├── StepTimeout                      a step ran past its timeout_s
    ├── DeadlinePassed                   a step did not end by its deadline
    ├── ChildFailed                      a run that this one waits for has failed or was cancelled
    └── QuestionExpired                  no person answered in time

    StopSignal (BaseException)           the attempt must stop; not for ``except Exception`` to swallow
    ├── StepInDoubt
    ├── LeaseLost
    ├── PremiseMissing
    ├── NotRecorded
    ├── Diverged
    │   └── EffectUnclaimed
    ├── Cancelled
    ├── Drained                          the worker that runs it is shutting down
    └── Parked
        ├── Looping                      the agent repeats itself
        ├── AwaitingAnswer               a person was asked
        ├── AwaitingProvider             a model's provider has named a time
        ├── AwaitingMessage              no other run has sent one
        ├── AwaitingChild                a run that it submitted is not over
        ├── Poisoned                     its attempts crash repeatedly
        ├── BudgetExceeded               a limit of the run's budget is reached
        └── Sleeping

    Terminated (SystemExit)              SIGTERM arrived; leaving the run's block records the interruption
"""

from typing import Any, ClassVar

from holdfast.model.explained_error import Explained as _Explained


class HoldfastError(_Explained, Exception):
    """Something was refused; the program may handle it."""


# -- the call itself is wrong --------------------------------------------------------------------------------


class Misuse(HoldfastError):
    """The call itself is wrong; repeating it unchanged will not help."""

    says = "{problem}"
    advises = "{advice}"
    problem: str
    advice: str


class BadName(Misuse):
    """A name that is empty, too long, or holds characters that cannot be typed back."""

    says = "{what} name {name!r} {problem}"
    advises = "use 1 to {length_max} characters: letters, digits and . _ - / : work everywhere"
    what: str
    name: str
    length_max: int


class BadUrl(Misuse):
    """A store URL that cannot be understood."""

    says = "store URL {url!r} {problem}"
    advises = (
        "use sqlite:///path/to/file.db, a bare path, postgresql://user@host/database, "
        "dynamodb://table?region=…, or memory://name"
    )
    url: str


class Unjournaled(Misuse):
    """A client or endpoint whose calls no journal records.

    Every attempt would repeat them. Nothing was sent.
    """

    client: str
    endpoint: str
    run: str


class AdapterNotInstalled(Misuse, ImportError):
    """The framework of the requested adapter cannot be imported."""

    says = "holdfast's adapter {adapter} needs {package}, which cannot be imported: {problem}"
    advises = "pip install 'holdfast[{extra}]'"
    adapter: str
    package: str
    extra: str


class BadOption(Misuse):
    """An option with a value outside its choices."""

    says = "{option}={value!r} is not one of {choices}"
    advises = "choose one of {choices}"
    option: str
    value: Any
    choices: tuple[str, ...]


class BadPrices(Misuse):
    """A price table that cannot be parsed; nothing of it is used."""

    says = "price table {source}: {problem}"
    advises = (
        'an entry is "model": {{"input": 0.15, "output": 0.6}}, in dollars per million tokens; '
        '"cached" may be added'
    )
    source: str


class FileFailed(HoldfastError, OSError):
    """The system refused an operation on a file of the run's. It is an OSError, too, with its ``errno``."""

    says = "run.{call}({path!r}): {problem}"
    advises = "mend what the system says, and call it again"
    call: str
    path: str
    problem: str

    def __str__(self) -> str:
        return BaseException.__str__(self)  # OSError's own str() has only the system's message


class OutOfDescriptors(HoldfastError, OSError):
    """The process has no descriptor left to load a part of Holdfast. It is an OSError, too."""

    says = "{module} cannot be loaded: {problem}"
    advises = (
        "close files or raise the limit (`ulimit -n`), and call it again: "
        "what was acknowledged stays recorded"
    )
    module: str
    problem: str

    def __str__(self) -> str:
        return BaseException.__str__(self)  # an OSError would tell only what the system said


class BadHandoff(Misuse):
    """A document that is not a handoff, or was changed after it was written."""

    says = "this handoff cannot be accepted: {problem}"
    advises = "have it written again: `holdfast handoff RUN --to NAME`, or run.handoff(to=…)"


class NotStorable(Misuse):
    """A value that cannot be stored and read back unchanged; the path leads to it."""

    says = "{what} holds {found} at {path}"
    what: str
    path: str
    found: str


class StateChanged(Misuse):
    """A state that another thread changed while it was being saved; nothing was written."""

    says = "the state of run {run} was changed by another thread while it was being saved ({problem})"
    advises = "hold a lock around run.checkpoint(...) and around what changes the state, or hand over a copy"
    run: str


class TooLarge(Misuse):
    """A value or batch beyond a documented limit."""

    says = "{what} is {size:,} {unit}; the limit is {size_max:,}"
    advises = "keep large content in a file or split it; see docs/limits.md"
    what: str
    size: int
    size_max: int
    unit: str


class ArtifactTooLarge(TooLarge):
    """A file that is too large for the run to keep a copy; nothing was recorded of it."""

    advises = (
        "keep=False tracks it by its hash alone, without a copy; "
        "artifact_bytes_max= of holdfast.run(...) is what the copies of a run may come to; see docs/limits.md"
    )
    path: str


class PathRefused(Misuse):
    """A path outside of where the run may write; nothing was written or read."""

    says = "run.{call}({path!r}) is refused: the path {problem}"
    advises = "this run's files are in {roots}; workspace= of holdfast.run(...) names its directories"
    call: str
    path: str
    problem: str
    roots: str


class BadAnswer(Misuse):
    """An answer that does not fit the question; the question stays open."""

    says = "{question} of run {run} is not answered: {problem}"
    advises = "it asks for {offered}"
    run: str
    question: str
    offered: str


class BadSignature(Misuse):
    """A webhook that was not signed with this secret, was changed on its way, or was signed long ago."""

    says = "the request {problem}"
    advises = "answer 400 and do nothing; hook and receiver need the same secret, and clocks that agree"


class UnknownHook(Misuse):
    """The store has no such hook."""

    says = "there is no hook {hook} in {store}"
    advises = "`holdfast hooks` lists them"
    hook: str
    store: str


class NoCurrentRun(Misuse):
    """There is no run in this context."""

    says = "{what} was called where no run is current, while this process holds {held}"
    advises = (
        "contexts do not reach new threads by themselves: start the thread with run.bind(fn), "
        "or call tool.fn for the plain function"
    )
    what: str
    held: str


class NeverAwaited(Misuse):
    """The program called a method of an async run and did not await it, so the call was never made."""

    says = "run {run} does not finish: {calls} {verb} never awaited"
    advises = "write `await` before it, and run the same line again"
    run: str
    calls: str


class ArgumentChanged(Misuse):
    """A step has changed what it was given.

    Its outcome is recorded. A replay answers the step without running it, and the change is missing there.
    """

    says = "step {step!r} of run {run} changes {argument!r}, and a replay will not"
    advises = (
        "return what you change, and use the result: `x = run.step({step!r}, …)`; "
        "or name it in ignore= if it does not matter"
    )
    run: str
    step: str
    argument: str


class ForkedHandle(Misuse):
    """A handle that came through os.fork.

    Two processes must not share one lease or one database connection.
    """

    says = "{what} was opened by process {opened_by} and is used in its fork {used_by}"
    advises = "open the store or run again in the child process"
    what: str
    opened_by: int
    used_by: int


class HandleClosed(Misuse):
    """A handle used after it was closed."""

    says = "{what} is closed"
    advises = "open it again"
    what: str


# -- the run's state does not allow it -----------------------------------------------------------------------


class RunRefused(HoldfastError):
    """The run's state does not allow this."""

    run: str


class UnknownRun(RunRefused):
    """No run of that id is in the store."""

    says = "no run {run!r} in {store}"
    advises = "`holdfast runs --store {store}` lists its runs"
    store: str


class RunExists(RunRefused):
    """A new run was asked for, by ``mode="new"`` or a fork, and there is one of that id."""

    says = "run {run} already exists ({status})"
    advises = 'choose another id, or leave mode="auto" to resume it'
    status: str


class ImportClash(RunExists):
    """The store has another run of that id than the export, or its history has diverged since."""

    says = "run {run} already exists ({status}), and {problem}"
    advises = "{advice}"
    problem: str
    advice: str


class RunHeld(RunRefused):
    """A live attempt holds the run."""

    says = "run {run} is held by {owner} since {since} (fence {fence}, last sign of life {beat_age})"
    advises = (
        "wait for it or stop that process; "
        "one that died on another machine is noticed when its lease runs out"
    )
    owner: str
    since: str
    fence: int
    beat_age: str


class RunFinished(RunRefused):
    """A finished run takes no new work."""

    says = "run {run} is finished; {what} is not in its journal"
    advises = 'continue it with if_finished="reopen", or start the next one with if_finished="new"'
    what: str


class RunCancelled(RunRefused):
    """A cancelled run takes no new work."""

    says = "run {run} was cancelled by {by} at {at}{why}"
    advises = 'open it again with if_finished="reopen", or start the next one with if_finished="new"'
    by: str
    at: str
    why: str


class RunOver(RunRefused):
    """The run is over: there is nothing left to cancel."""

    says = "run {run} is {status}: there is nothing left to cancel"
    advises = "`holdfast show {run}` shows its result"
    status: str


class ForeignCommand(RunRefused):
    """The run's recorded command is foreign, and no user of this store has trusted it."""

    says = "run {run} is not started: its command is not yours ({origin}): {command} in {cwd}"
    advises = "if you trust it: `{again}`"
    origin: str
    command: str
    cwd: str
    again: str


class RunSealed(RunRefused):
    """The run must not act in this store."""

    says = "run {run} {problem}"
    advises = "{advice}"
    problem: str
    advice: str


class Undeliverable(RunRefused):
    """The run no longer receives messages."""

    says = "run {run} {problem}"
    advises = "`holdfast show {run}` shows its result"
    problem: str


class RunHasForks(RunRefused):
    """Other runs borrow this one's history and would lose it."""

    says = "run {run} has forks that borrow its history: {forks}"
    advises = "`holdfast erase {run} --flatten` gives each fork its own copy first"
    forks: str


class ChainMoved(RunRefused):
    """Two writers continued the same checkpoint.

    The first one's write is kept; the second gets this error.
    """

    says = "run {run}{chain}: {problem}; nothing was written"
    advises = (
        "read it again and continue from there; "
        "`holdfast fork {point} --as NAME` continues from the old checkpoint"
    )
    chain: str
    parent: str
    problem: str
    point: str


class InputsChanged(RunRefused):
    """The same id was opened with other inputs or another goal."""

    says = "run {run} was started with other {what}:\n{diff}"
    advises = "use a new id for new inputs, or pass the recorded ones to resume"
    what: str
    diff: str


class UnknownPoint(RunRefused):
    """The run has no such point, event or label."""

    says = "run {run} has no {what}; its last point is {last_point}, its last event #{head}"
    advises = "`holdfast log {run}` lists what is recorded"
    what: str
    last_point: int
    head: int


class AmbiguousLabel(RunRefused):
    """Several points of the run have this label."""

    says = "run {run} has several places labelled {label!r}: points {points}"
    advises = "name the point instead, like {run}@{last_point}; `holdfast label {run}` lists them"
    label: str
    points: str
    last_point: str


class LabelTaken(RunRefused):
    """Another point of the run has this label, or its program has given it."""

    says = "run {run} has a label {label!r} already: {place}, from {by}"
    advises = "choose another name; `holdfast label {place} --remove` takes one back that a person gave"
    label: str
    place: str
    by: str


class PointPruned(RunRefused):
    """The point was recorded, but the data needed to continue from it was pruned."""

    says = "run {run} no longer has {what}: it was pruned; the nearest kept one is {nearest}"
    advises = "use {nearest}; `holdfast checkpoints {run}` lists what is kept"
    what: str
    nearest: str


class PruneMismatch(RunRefused):
    """Pruning would have changed what it must keep. ``state`` says how far it had come."""

    says = "pruning run {run} would change {what}; {state}"
    advises = "please report this; until then, open the run with retention=None"
    what: str
    state: str


class UnknownArtifact(RunRefused):
    """No such file or version, or no copy of it."""

    says = "{what} of run {run} {problem}"
    advises = "`holdfast artifacts {run} --all` lists its files, and which have copies"
    what: str
    problem: str


class UnknownStep(RunRefused):
    """There is no step of that name or key to resolve."""

    says = "run {run} has {state} {step!r}; it has: {candidates}"
    advises = "`holdfast show {run}` lists the steps in doubt with their keys"
    step: str
    state: str
    candidates: str


class AlreadyResolved(RunRefused):
    """The outcome of the step is already known."""

    says = "step {step!r} of run {run} is not in doubt: {state}"
    advises = "`holdfast show {run}` shows what is recorded and what is in its inbox"
    step: str
    state: str


class UnknownQuestion(RunRefused):
    """The run has no such question, or several."""

    says = "run {run} {problem}"
    advises = "`holdfast answer {run}` lists its questions"
    question: str
    problem: str


class AlreadyAnswered(RunRefused):
    """The question already has an answer; the first one counts."""

    says = "question {question} of run {run} is already answered: {state}"
    advises = "`holdfast log {run} --kind question` shows the answers, and who gave them"
    question: str
    state: str


# -- the store -----------------------------------------------------------------------------------------------


class StoreError(HoldfastError):
    """The store refused."""

    says = "store {store}: {problem}"
    may_pass: ClassVar[bool] = False
    """Whether the same call may succeed later, with an unchanged program."""
    store: str
    problem: str


class StoreUnavailable(StoreError):
    """An I/O failure.

    The outcome of a failed write is unknown; the handle re-reads the head before it continues.
    """

    may_pass = True
    advises = (
        "it is not known whether this was written; `holdfast doctor --store {store}` looks at what is there: "
        "mend the cause and start again"
    )


class StoreBusy(StoreError):
    """Another process kept the database locked for too long."""

    may_pass = True
    advises = "see which process holds it with `fuser {store}`; then start again"


class Throttled(StoreBusy):
    """The service asked to come again later, for too long."""

    advises = "run the same line again; give the table on-demand billing or more capacity if this goes on"


class StoreMissing(StoreError):
    """The database, table or bucket of a server does not exist, or not at this place."""

    advises = (
        "check the URL, region and endpoint included; "
        "`holdfast doctor --create-table --store '{store}'` creates it"
    )


class AccessDenied(StoreError):
    """The server refuses this process, or this operation."""

    may_pass = True
    advises = "check the credentials of this process and what they are allowed to do"


class DiskFull(StoreError):
    """No space is left for the write."""

    may_pass = True
    advises = "free some space and run the same line again"


class StoreReadOnly(StoreError):
    """The file or its directory cannot be written."""

    may_pass = True
    advises = "check the permissions, or point HOLDFAST_URL somewhere else"


class NotAStore(StoreError):
    """A file or schema that exists and is not a Holdfast store; it stays untouched."""

    advises = "choose another path"


class NewerFormat(StoreError):
    """Written by a newer Holdfast; this version could lose data it does not know."""

    advises = "upgrade holdfast"


class KeyRefused(StoreError):
    """The store is encrypted and its key is missing or another one; or it is not, and a key was given.

    Nothing was read or written.
    """

    advises = "{advice}"
    advice: str


class NotDurable(StoreError):
    """What is written there would not survive: on a network file system, or in a deleted file."""

    advises = "keep the file on a local disk, or use a server store"


class Corrupt(StoreError):
    """Bytes that fail their checksum. They are reported and never returned."""

    advises = "`holdfast doctor --store {store}` lists every damaged row; restore from a copy or an export"


class AcknowledgedLost(Corrupt):
    """A run's journal is shorter than its acknowledged head: its last events are lost."""

    says = (
        "run {run} in {store}: event #{acknowledged} was acknowledged, and its journal ends at #{head}; "
        "effects that it recorded after that may be done again"
    )
    advises = (
        "restore the store with its -wal file; or check what the run's tools did, then continue from "
        "#{head} with `holdfast doctor --accept-loss {run} --store {store}`"
    )
    run: str
    acknowledged: int
    head: int


# -- exports ------------------------------------------------------------------------------------------------


class ExportError(HoldfastError):
    """A path that cannot be exported to or imported from; nothing was imported."""

    says = "{path} {problem}"
    path: str
    problem: str


class NotAnExport(ExportError):
    """It was not made by ``holdfast export``."""

    advises = "make an export with: holdfast export RUN"


class NewerExport(ExportError):
    """Made by a newer Holdfast; this version could lose data it does not know."""

    advises = "upgrade holdfast"


class DamagedExport(ExportError):
    """The file is cut off, or differs from what was written. Nothing of it can be trusted."""

    advises = "copy it again, or export the run again: holdfast export RUN"


class ExportTaken(ExportError):
    """The export of a moved run is for a single use, and one of the two stores has recorded that use."""

    advises = "{advice}"
    advice: str


class ThreadsUnreadable(HoldfastError):
    """The database of another framework's saver, or a thread in it, cannot be imported; it is unchanged."""

    says = "{source}: {problem}"
    advises = "{advice}"
    source: str
    problem: str
    advice: str


# -- values -------------------------------------------------------------------------------------------------


class UnknownFact(HoldfastError):
    """Memory has no fact with this id in this scope."""

    says = "there is no fact {fact!r} in {scope} of {store}"
    advises = "store.memory.list() lists all facts"
    fact: str
    scope: str
    store: str


class EmbedderUnavailable(HoldfastError):
    """The configured embedder gives no vectors.

    It is unreachable, refuses, or answers with something else.
    """

    says = "the embedder {embedder} {problem}"
    advises = "make sure that it runs and has the model; HOLDFAST_EMBEDDER=table or none works without it"
    embedder: str
    problem: str


class CommandFailed(HoldfastError):
    """The command behind ``holdfast proxy`` has ended with an exit code other than 0, or by a signal."""

    says = "the command of run {run} ended with {how}: {command}"
    advises = (
        "`holdfast resume {run}` starts it again; its recorded model calls are answered from the journal"
    )
    run: str
    how: str
    command: str
    code: int


class UnusableAnswer(HoldfastError):
    """A provider's response without an answer: not JSON, empty, or an error with a success status."""

    says = "the answer of {provider} to {step!r} cannot be used: {problem}"
    advises = "nothing was recorded as its answer: run it again, or check the provider's own log"
    provider: str
    step: str
    problem: str


class InvalidHistory(HoldfastError):
    """A conversation that a provider would refuse; it was not sent.

    ``code`` is the problem, ``index`` the message.
    """

    says = "message {index} of the conversation cannot be sent: {problem}"
    advises = (
        "`run.messages.mend()` settles what an interruption left, from the journal; "
        "`holdfast doctor --fix` repairs a recorded conversation"
    )
    index: int
    code: str
    problem: str
    count: int


class ValueUnreadable(HoldfastError):
    """Recorded bytes whose type is gone, renamed or changed."""

    says = "{what} is recorded as {type_name}, {problem}"
    advises = (
        "keep the old name importable, or register the class that replaces it: "
        "holdfast.register(cls, name={type_name!r})"
    )
    what: str
    type_name: str
    problem: str


class SecretMissing(HoldfastError):
    """A recorded value refers to a secret that this process does not have. Set it, and resume."""

    says = "secret {name} is needed to read a recorded value, and is not here"
    advises = "set the environment variable {name}, or call holdfast.secret(…, name={name!r}) first"
    name: str


class ReplayedFailure(HoldfastError):
    """A recorded failure whose exception class cannot be found in this process."""

    says = "{type_name}: {message}"
    advises = (
        "import the module that defines {type_name} before resuming, to get the failure as its own class"
    )
    type_name: str
    message: str


class EffectUnknown(HoldfastError):
    """in_doubt="tell": it is unknown whether the effect happened."""

    says = (
        "{step} was started at {started_at} and it is not known whether it happened; "
        "check before doing it again"
    )
    step: str
    started_at: str


class EffectNotMade(HoldfastError):
    """unclaimed="tell": the call was not made, since a recorded effect may be it.

    Its text is for the model. Asked for again, the call is judged again; that alone decides nothing.
    """

    says = "{step} was NOT made: {why}\n{diff}\n{ways}"
    advises = (
        "say what it is: `holdfast resolve {run} d{seq} --same` (it is that one), `--new` (make it), "
        "or `--abandon` (the recorded one counts no more); it counts when the call is asked for again"
    )
    run: str
    step: str
    key: str
    seq: int
    why: str
    diff: str
    ways: str


class StepTimeout(HoldfastError):
    """A step ran past its timeout_s."""

    says = "step {step!r} of run {run} ran past its timeout of {timeout_s} s"
    advises = "raise timeout_s in run.options(...), or make the step smaller"
    run: str
    step: str
    timeout_s: float


class DeadlinePassed(HoldfastError):
    """A step did not end by its deadline; no try of it starts after that."""

    says = "step {step!r} of run {run} did not end by its deadline, {deadline}"
    advises = "give it more time with deadline= in run.options(...), or make the step smaller"
    run: str
    step: str
    deadline: str


class ChildFailed(HoldfastError):
    """A run that this one waits for has failed or was cancelled. A retry submits it again."""

    says = "run {child}, which run {run} waits for, {problem}"
    advises = "`holdfast show {child}` shows why"
    run: str
    child: str
    problem: str


class QuestionExpired(HoldfastError):
    """No person answered in time."""

    says = "question {question} of run {run} expired at {expired_at}: {text}"
    advises = "ask again, or continue without an answer"
    run: str
    question: str
    text: str
    expired_at: str


# -- stop-signals --------------------------------------------------------------------------------------------


class StopSignal(_Explained):
    """The attempt must stop. A BaseException: frameworks swallow an Exception and call the tool again."""

    run: str
    store: str = ""
    """The URL of the run's store, set when the run's block is left: for the command that goes on."""


class StepInDoubt(StopSignal):
    """An effect was started, and it is unknown whether it happened."""

    says = "step {step!r} of run {run} was started at {started_at} and {reason}"
    advises = (
        "check the outside world, then "
        "`holdfast resolve {run} {step} --done '…' | --retry | --failed | --abandon`"
    )
    step: str
    key: str
    started_at: str
    reason: str


class LeaseLost(StopSignal):
    """Another process holds the run now; this one must not write to it."""

    says = "run {run} is now held by {owner} (fence {fence_now}); this process held fence {fence}"
    advises = "stop; `holdfast show {run}` tells what is recorded"
    owner: str
    fence_now: int
    fence: int
    head: int


class PremiseMissing(StopSignal):
    """A premise of the resumed agent is missing."""

    says = "run {run} relies on {premise} ({recorded}), which {problem}"
    advises = (
        "restore it, then run the same line again; `holdfast resume {run} --dry-run` shows all premises, "
        "and `holdfast resume {run} --accept {accept}` accepts this one as it is now"
    )
    premise: str
    recorded: str
    problem: str
    verdict: str
    accept: str


class Diverged(StopSignal):
    """The program's call differs from the recorded one at this point."""

    says = "run {run} diverged at step {step!r} (recorded as #{seq}):\n{diff}"
    advises = (
        "restore the code that was recorded, or continue with the change: `holdfast show {run}` has the "
        "commands and what each costs; to accept this one call: `holdfast resolve {run} {key} --abandon`"
    )
    step: str
    key: str
    seq: int
    diff: str


class EffectUnclaimed(Diverged):
    """The program is about to make an effect, and the run has recorded effects that it has not asked for.

    One of them may be this effect under another identity, since the program or its data changed.
    """

    says = "run {run} is not sure that {step!r} is new: {why}\n{diff}"
    advises = (
        "say what it is: `holdfast resolve {run} {effect} --same` (it is that one), `--new` (make it), "
        "or `--abandon` (the recorded one counts no more)"
    )
    why: str
    effect: str


class Cancelled(StopSignal):
    """The run was cancelled."""

    says = "run {run} was cancelled by {by}{why}"
    advises = 'what was recorded stays; if_finished="reopen" opens the run again'
    by: str
    why: str


class NotRecorded(StopSignal):
    """A replay came to something that is not recorded: it is not made, and the replay ends."""

    says = "replay of run {run}: {what} is not recorded"
    advises = "`holdfast replay {run}` shows what differs"
    what: str


class Drained(StopSignal):
    """The worker is shutting down: no new call starts.

    Finished calls are recorded; another worker continues.
    """

    says = "run {run} is released: its worker is shutting down"
    advises = "any worker of its agent continues it"


class Parked(StopSignal):
    """The run waits for something outside.

    It continues when it is started after ``until``, if that is known.
    """

    says = "run {run} is parked: {reason}"
    advises = "`holdfast show {run}` shows what it waits for"
    reason: str
    until: float | None = None


class BudgetExceeded(Parked):
    """A limit of the run's budget is reached. Raised before the model call: nothing was sent."""

    advises = (
        "raise budget= in the program and run the same line again; "
        "`holdfast stats {run} --cost` shows what it was spent on"
    )
    limit: str
    spent: float
    allowed: float


class Looping(Parked):
    """The agent repeats itself. Started again, it continues, and all loop counts start at zero."""

    advises = (
        "`holdfast log {run}` shows what it did; `holdfast resume {run}` lets it continue. "
        "Declare intended repetition with polling=True; loops=False turns loop detection off"
    )


class AwaitingAnswer(Parked):
    """A person was asked. Started again after the answer, the run continues; before that, it parks again."""

    says = "run {run} waits for an answer to {question}: {reason}"
    advises = "`holdfast answer {run} {question}` shows how to answer; then start the run again"
    question: str


class AwaitingMessage(Parked):
    """The run waits for a message from another run.

    Started again after it has come, the run continues; before that, it parks again.
    """

    says = "run {run} waits for a message: {reason}"
    advises = "another run sends one with run.send({run!r}, …); then start it again: `holdfast resume {run}`"


class Sleeping(Parked):
    """The run waits for a time.

    Started again after it, the run continues; before that, it waits or parks again.
    """

    says = "run {run} sleeps {reason}"
    advises = "start it again after that: `holdfast resume {run}`"


class AwaitingProvider(Parked):
    """The run waits until a time that its model's provider has named. Before that, it parks again."""

    says = "run {run} waits for {reason}"
    advises = "start it again after that: `holdfast resume {run}`"


class AwaitingChild(Parked):
    """The run waits for a run that it submitted. A worker continues it when that one is over."""

    says = "run {run} waits for run {child}, which is {reason}"
    advises = "`holdfast show {child}` shows its progress"
    child: str


class Poisoned(Parked):
    """The run's attempts crashed repeatedly without progress. No worker retries it by itself."""

    advises = "`holdfast show {run}` shows what happened; `holdfast submit {agent} {run}` retries it"
    agent: str


class Terminated(SystemExit):
    """SIGTERM arrived. Raised by the handler; leaving the run's block records the interruption."""

    def __init__(self) -> None:
        super().__init__(128 + 15)
