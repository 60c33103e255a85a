"""Decides whether a new fact repeats a known one, replaces it, or is another fact.

Similarity of vectors is not enough: "the TTL is 300" and "the TTL is 30" are as similar as two sentences get.
So words decide. Two facts are the *same* if their words, numbers, identifiers, names and negations agree, in
an order with the same meaning. A new fact *supersedes* an old one if both are about the same subject and only
the value differs, or whether it holds. Everything else stays *apart*: keeping two facts costs little, while a
fact that is wrongly hidden is lost.

A value comes after a verb that is known to state one, or is a quantity ("below ten euros"). The words before
the verb name the subject, and so does a number after a noun there: server 1 is not server 2.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal

from holdfast.core.memory.stemming import stem
from holdfast.core.memory.terms import COMMON, WORD, folded
from holdfast.model.named_tuple import NamedTuple

SAME_COSINE_MIN: Final = 0.80
"""Below it, two texts are not one fact, even if all their words agree.

0.92 was worse with the shipped table: 5 of 20 repeats stayed two facts ("4,200 euros", "4200 euros"), and no
other pair was kept apart that should be.
"""

Verdict = Literal["same", "supersedes", "apart"]

_NEGATIONS: Final = frozenset("not never no none neither nor without cannot nothing".split()) | {"nobody"}
_CONTRACTED: Final = re.compile(
    r"^(?:can|won|(?:do|does|did|is|are|was|were|has|have|had|could|would|should|must|need)n)t$"
)
_OPPOSITES: Final = {
    "off": "",  # "on" is a common word and no token: off is not on
    "disabled": "enabled",
    "inactive": "active",
    "forbidden": "allowed",
    "prohibited": "allowed",
    "banned": "allowed",
    "disallowed": "allowed",
    "unsupported": "supported",
    "closed": "open",
    "shut": "open",
    "false": "true",
    "optional": "required",
    "unavailable": "available",
    "invalid": "valid",
    "impossible": "possible",
    "unable": "able",
    "unlocked": "locked",
    "unsafe": "safe",
}
"""Words that negate another word: "disabled" counts as "not enabled"."""
_FILLERS: Final = frozenset(
    """actually always currently get gets getting got longer note now please really remember set still
    yet""".split()
)
_BINDING: Final = frozenset("at by for in into of onto to with within".split())
"""Prepositions that say who does what to whom.

They count for the order of words, but one may replace another.
"""
_WEIGHTY: Final = frozenset(
    """after again all any before both during each every few from more most only other over once per same some
    than through under until he her hers him his i me my our ours she their them they us we you your yours
    could might must should will would""".split()
)
"""Words that a query can ignore and a comparison cannot: "he" is not "she", and "must" is not "may"."""
_ALLOWING: Final = frozenset("can may must".split())
"""Before "not" these mean the same: what one must not do, one may not do."""
_ALIKE: Final = dict.fromkeys("was were had did".split(), "was") | {
    "can": "may",
    "may": "may",
    "must": "must",
}
_BEING: Final = frozenset(
    "is are was were be been am equals called named belongs prefers lives costs".split()
)
"""Verbs that state one thing at a time: a new statement replaces the old one."""
_TELLING: Final = _BEING | frozenset(
    """has have had happens happen takes take lasts last runs run uses use writes write starts start begins
    begin ends end opens closes expires expire leaves leave arrives arrive needs need requires require holds
    hold keeps keep stores cost owes owe wants want prefer live belong blocks block allows allow serves serve
    stops stop points point listens listen stands stand contains contain earns earn weighs weigh measures
    measure""".split()
)
"""Verbs that state a value.

Verbs of permission are missing on purpose: a new permission does not end an old one.
"""
_MANY: Final = frozenset(
    """has have had holds hold keeps keep contains contain needs need requires require wants want allows allow
    serves serve""".split()
)
"""After these verbs a number is a value, and anything else may be one of many."""
_SETTLED: Final = frozenset(
    stem(word)
    for word in "stored hosted located owned led managed based kept deployed held assigned booked".split()
)
"""With one of these words a name is a value: what is stored there is not stored here.

A friend may be one of many.
"""
_DETERMINERS: Final = frozenset(
    "a an the this that these those each every of for per my our your his her its their no any".split()
)
_DAYS: Final = frozenset(
    stem(day)
    for day in """monday tuesday wednesday thursday friday saturday sunday january february march april june
    july august september october november december today tomorrow weekends weekdays daily weekly monthly
    yearly hourly""".split()
)
_SMALL: Final = {
    word: at
    for at, word in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
        sixteen seventeen eighteen nineteen twenty""".split()
    )
} | {word: 10 * at for at, word in enumerate("thirty forty fifty sixty seventy eighty ninety".split(), 3)}
_LARGE: Final = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
_IDENTIFIER: Final = re.compile(r".*\d|.*[_/@:]|.*\w\.\w|.*[a-z][A-Z]|[A-Z]{2,}$")
_NAMING: Final = {"identifier": "name"}
"""AWS and Vault are both names, though only one of them looks like an identifier."""
_NOT: Final = "not"
_SIGN: Final = re.compile(r"(?<!\w)-(?=w)|[+#%$€£¥<>=~&*°^|\\@/]")
_TOKENS_MAX: Final = 200
_ATTRIBUTES: Final = frozenset("of default favourite favorite preferred current".split())
_SENTENCE_END: Final = re.compile(r"[.!?:]\s*$")


class _Token(NamedTuple):
    """A word as this comparison sees it: ``kind`` is word, number, identifier, name, day or binding."""

    form: str
    kind: str
    is_told: bool = False
    """It comes after a verb that states something about the subject."""
    is_one: bool = False
    """That verb is not one of ``_MANY``."""
    is_single: bool = False
    """That verb is one of ``_BEING``: it states one thing at a time, also by name."""
    is_label: bool = False
    """A number or name directly after a noun, as in ``server 1``."""


class _Reading(NamedTuple):
    tokens: list[_Token]
    is_attribute: bool
    """The subject is an attribute of something: ``the owner of the cluster``, ``Mira's colour``."""

    tells: bool
    """It has a verb that states a value.

    "We met in 2019" has none, so "we met in 2021" does not replace it.
    """

    @property
    def forms(self) -> list[str]:
        return [token.form for token in self.tokens]

    @property
    def content(self) -> list[str]:
        return [token.form for token in self.tokens if token.kind != "binding"]

    @property
    def negations(self) -> int:
        return self.forms.count(_NOT)

    def as_affirmed(self) -> "_Reading":
        return self._replace(tokens=[token for token in self.tokens if token.form != _NOT])

    def as_bound(self) -> "_Reading":
        """With each "not" joined to the word that it negates, so that it cannot move to another word."""
        tokens: list[_Token] = []
        for token in self.tokens:
            if tokens and tokens[-1].form == _NOT:
                tokens[-1] = token._replace(form=f"{_NOT} {token.form}", kind="word")
            else:
                tokens.append(token)
        if len(tokens) > 1 and tokens[-1].form == _NOT:
            tokens[-2:] = [tokens[-2]._replace(form=f"{_NOT} {tokens[-2].form}")]
        return self._replace(tokens=tokens)


def compare(new_text: str, old_text: str, cosine: float | None = None) -> Verdict:
    """How a new fact relates to an old one.

    ``cosine`` is the similarity of their vectors, if they have any.
    """
    new, old = _read(new_text), _read(old_text)
    if _signs(new_text) != _signs(old_text):
        return "apart"
    if not new.content or not old.content:
        return "same" if folded(new_text).split() == folded(old_text).split() else "apart"
    if new.negations != old.negations:
        return "supersedes" if _agree(new.as_affirmed(), old.as_affirmed()) else "apart"
    if _agree(new.as_bound(), old.as_bound()):
        return "same" if cosine is None or cosine >= SAME_COSINE_MIN else "apart"
    if max(len(new.tokens), len(old.tokens)) > _TOKENS_MAX:
        return "apart"  # a page of text is no value, and comparing two takes long
    return "supersedes" if _differ_by_value(new, old) else "apart"


def _signs(text: str) -> list[str]:
    """Signs that carry meaning, in contrast to punctuation: -5 is not 5, $5 not €5, C++ not C#."""
    return _SIGN.findall(WORD.sub("w", text))


def _agree(new: _Reading, old: _Reading) -> bool:
    """Whether both have the same words in the same order, or with one part moved, as "on Fridays"."""
    if sorted(new.content) != sorted(old.content):
        return False
    if sorted(new.forms) != sorted(old.forms):  # with other prepositions, a moved part may change the meaning
        return new.content == old.content
    return _is_moved(new.forms, old.forms)


def _is_moved(new: Sequence[str], old: Sequence[str]) -> bool:
    begin, end = 0, len(new)
    while begin < end and new[begin] == old[begin]:
        begin += 1
    while end > begin and new[end - 1] == old[end - 1]:
        end -= 1
    first, second = list(new[begin:end]), list(old[begin:end])
    return not first or any(first[at:] + first[:at] == second for at in range(1, len(first)))


def _differ_by_value(new: _Reading, old: _Reading) -> bool:
    changes = [
        (old.tokens[a:b], new.tokens[c:d])
        for tag, a, b, c, d in SequenceMatcher(None, old.forms, new.forms, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
    if len(new.content) <= sum(len(after) for _, after in changes):
        return False
    return all(_is_value_change(old, new, before, after) for before, after in changes)


def _is_value_change(old: _Reading, new: _Reading, before: Sequence[_Token], after: Sequence[_Token]) -> bool:
    kinds = [[_NAMING.get(token.kind, token.kind) for token in tokens] for tokens in (before, after)]
    if not before or kinds[0] != kinds[1]:
        return False
    return all(_is_value(token, old) for token in before) and all(_is_value(token, new) for token in after)


def _is_value(token: _Token, reading: _Reading) -> bool:
    """Whether a token is a value of the subject that another value would replace."""
    if token.kind == "number":
        return token.is_told or (reading.tells and not token.is_label)
    if token.kind in {"identifier", "day"}:
        return token.is_told and token.is_one
    if token.kind == "name":
        others = (one for one in reading.tokens if one.is_told and one.kind == "word")
        return token.is_single and all(one.form in _SETTLED for one in others)
    # A plain word is a value only if it is the whole statement about an attribute: "Mira's favourite colour
    # is green".
    return token.is_single and reading.is_attribute and sum(one.is_told for one in reading.tokens) == 1


# -- from text to tokens -------------------------------------------------------------------------------------


def _read(text: str) -> _Reading:
    tokens: list[_Token] = []
    is_told = is_one = is_single = is_attribute = is_behind_noun = False
    before = ""
    for raw, begins, is_set in _words(text):
        low = folded(raw)
        if not is_told and (low in _ATTRIBUTES or raw.endswith(("'s", "\u2019s"))):
            is_attribute = True
        if low in _TELLING and before and before not in _DETERMINERS:
            is_told, is_one, is_single = True, low not in _MANY, low in _BEING
        elif is_set:
            is_told = is_one = is_single = True
        if _denies(low):
            if low.startswith(("can", "must")):
                tokens.append(_Token("may", "word"))
            elif tokens and tokens[-1].form in _ALLOWING:
                tokens[-1] = tokens[-1]._replace(form="may")
            tokens.append(_Token(_NOT, _NOT))
        low = _OPPOSITES.get(low, low)
        form, kind = _kind(raw, low, begins=begins)
        if form:
            tokens.append(_Token(form, kind, is_told, is_one, is_single, is_behind_noun))
        is_behind_noun = bool(form) and kind not in {"binding", "number"} and low not in _TELLING
        before = low
    return _Reading(_counted(tokens), is_attribute, is_told)


def _denies(low: str) -> bool:
    return low in _NEGATIONS or low in _OPPOSITES or bool(_CONTRACTED.match(low))


def _words(text: str) -> Iterator[tuple[str, bool, bool]]:
    """The words, each with whether it begins a sentence, and whether it is an assigned value (TTL=300)."""
    end = 0
    for match in WORD.finditer(text):
        word, gap = match.group(), text[end : match.start()]
        is_set = "=" in gap or (":" in gap and word[0].isdigit())
        yield word, end == 0 or bool(_SENTENCE_END.search(gap)), is_set
        end = match.end()


def _kind(raw: str, low: str, *, begins: bool) -> tuple[str, str]:
    """A word's form and kind; the form is empty if the word does not count."""
    if low in _BINDING:
        return low, "binding"
    if low in _ALIKE:
        return _ALIKE[low], "word"
    is_common = low in COMMON and low not in _WEIGHTY and not _names(raw, begins=begins)
    if not low or is_common or low in _FILLERS or low in _NEGATIONS or _CONTRACTED.match(low):
        return "", ""
    if low in _SMALL or low in _LARGE:
        return low, "number"
    if low[0].isdigit():  # 4,200, 02:15, 20MB, 3rd
        return low.replace(",", ""), "number"
    if stem(low) in _DAYS:
        return stem(low), "day"
    if _IDENTIFIER.match(raw):
        return low, "identifier"
    if raw[0].isupper() and not begins:
        return stem(low), "name"
    return (stem(low) if low.isascii() and low.isalpha() else low), "word"


def _names(raw: str, *, begins: bool) -> bool:
    """Whether a common word is a name here because of its capitals: the IT team, plan A."""
    return raw.isupper() and (len(raw) > 1 or (raw == "A" and not begins))


def _counted(tokens: list[_Token]) -> list[_Token]:
    """The tokens with numbers in words as digits: five hundred is 500."""
    found: list[_Token] = []
    for token in tokens:
        last = found[-1] if found else None
        if token.form in _LARGE and last is not None and last.kind == "number" and last.form.isdigit():
            found[-1] = last._replace(form=str(int(last.form) * _LARGE[token.form]))
        elif token.form in _LARGE:
            found.append(token._replace(form=str(_LARGE[token.form])))
        else:
            found.append(token._replace(form=str(_SMALL.get(token.form, token.form))))
    return found
