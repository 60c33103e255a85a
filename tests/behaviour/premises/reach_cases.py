"""A program of several modules, and edits of it: those that change what a step does, and those that do not."""

from typing import NamedTuple

AGENT = '''\
"""Quotes prices."""
import functools
import json
import math
from decimal import ROUND_UP as ROUNDING

import holdfast
import rates
import shop.tax as duties
from rates import discount
from shop import stock
from shop.catalogue import Item
from shop.names import *
from tools import work

RATE = 3
MARGIN = RATE * 2
LIMITS = {"small": 10, "large": 100}
LIMITS["huge"] = 1000
STEPS = [1, 2]
STEPS.append(3)
if RATE > 2:
    MODE = "fast"
else:
    MODE = "slow"
LEFT, RIGHT = 1, 2
PROMPT = "Be brief."
API_KEY = "sk-1"
UNUSED = 1
registry = {}


def logged(fn):
    @functools.wraps(fn)
    def inner(*args):
        return fn(*args)
    return inner


def times(number):
    def wrap(fn):
        @functools.wraps(fn)
        def inner(*args):
            return fn(*args) * number
        return inner
    return wrap


def clamp(n):
    """Keep it small."""
    return min(n, LIMITS["large"])


def scale(n, factor=2):
    """Scale it."""
    return clamp(n * factor) + MARGIN


def once(n): return n


@times(2)
def doubled(n):
    return n


def unused(n):
    return n + UNUSED


class Base:
    floor = 0

    def check(self, n):
        return max(n, self.floor)


class Wide(Base):
    floor = 1


class Basket(Base):
    """Holds things."""
    size = 4

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def total(self):
        return self.check(self.n) * self.size

    def idle(self):
        return 0


@holdfast.tool(effect="read", retries=1)
def search(query: str) -> str:
    return query + MODE


@logged
def quote(n: int) -> float:
    """Quote a price."""
    total: float = scale(n) + rates.base(n) + discount(n) + duties.duty(n)
    total += stock.count() + len(Basket(n)) + Basket(n).total() + doubled(n) + once(n)
    total += sum(x + LEFT for x in STEPS) + math.floor(total) + Item(n).price
    if registry:
        total += 1
    RATE_OF_DAY = NAMES["day"]
    return float(total + RATE_OF_DAY + len(PROMPT) + len(API_KEY) + len(str(ROUNDING)))


def late(n):
    from shop.late import lazily
    return lazily(n) + json.loads("1")


class Seller(Base):
    fee = 1
    other_fee = 2

    def __init__(self):
        self.bonus = 5

    def sell(self, n):
        return self._net(n) - self.fee + self.bonus

    def _net(self, n):
        return super().check(n) - 1

    def _idle(self):
        return 0


def main(run):
    step = 7

    def helper(n):
        return n + step

    def nested(n):
        return helper(n)

    run.step("quote", quote, 3)
    run.step("late", late, 3)
    run.step("sell", Seller().sell, 3)
    run.step("nested", nested, 3)
    search("debt")
    run.step("work", work, 3)
'''

FILES = {
    "agent.py": AGENT,
    "rates.py": """\
FACTOR = 2


def base(n):
    return _inner(n)


def _inner(n):
    return n * FACTOR


def discount(n):
    return -n


def surcharge(n):
    return +n
""",
    "shop/__init__.py": "from . import stock\n",
    "shop/stock.py": """\
from .numbers import one as number


def count():
    return number()
""",
    "shop/numbers.py": "def one():\n    return 1\n\n\ndef two():\n    return 2\n",
    "shop/tax.py": "RATES = (1, 2)\n\n\ndef duty(n):\n    return n * RATES[0]\n\n\ndef other(n):\n    return n\n",
    "shop/late.py": "def lazily(n):\n    return n\n",
    "shop/names.py": 'NAMES = {"day": 1}\nHIDDEN = 1\n',
    "shop/catalogue.py": """\
from dataclasses import dataclass


@dataclass
class Item:
    n: int
    markup: float = 2.0

    @property
    def price(self):
        return self.n * self.markup

    def label(self):
        return "item"
""",
}


FILES["tools.py"] = """\
import enum
import re
from functools import partial

try:
    import orjson_of_nobody as codec
except ImportError:
    import json as codec

LIMIT = 5
HIDDEN = 6
SHADOW = 7
WORD = re.compile("[a-z]+")
COUNT = 0
square = lambda x: x * x
NAMES = [name.upper() for name in ("a", "b")]


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def add(a, b):
    return a + b


def negate(n):
    return -n


def invert(n):
    return ~n


HANDLERS = {"negate": negate, "invert": invert}
add_two = partial(add, 2)


async def later(n):
    return n + LIMIT


def numbers(n):
    yield from range(n, LIMIT + n)


class Cart:
    class Line:
        def cost(self):
            return 3

    def __init__(self):
        self._n = 1

    @property
    def amount(self):
        return self._n

    @amount.setter
    def amount(self, n):
        self._n = n * 2

    @classmethod
    def empty(cls):
        return cls()

    @staticmethod
    def rounded(n):
        return round(n)

    alias = rounded

    def quiet(self):
        return HIDDEN


cart = Cart()


def touch():
    global COUNT
    COUNT += 1


def work(SHADOW, codec_name="c"):
    touch()
    cart.amount = 3
    total = square(SHADOW) + add_two(1) + cart.amount + Cart.Line().cost() + Cart.empty().alias(1.5)
    total += HANDLERS["negate"](1) + sum(numbers(1)) + Colour.RED.value + len(NAMES)
    total += sum(HIDDEN for HIDDEN in range(3)) + dict(UNSEEN=1)["UNSEEN"]
    if (found := WORD.match("abc")) is not None:
        total += len(found[0])
    match total:
        case 3 as LAST:
            total += LAST
    coroutine = later(1)
    coroutine.close()
    return f"{total:>{LIMIT}}" + codec.dumps(1)


LAST = 1
UNSEEN = 1
"""


class Edit(NamedTuple):
    """A change of the program, and the premise that it breaks, with the name that has to be told."""

    file: str
    old: str
    new: str
    premise: str = ""
    told: str = ""


QUOTE = "source:quote"
TAMPERED = {
    "the function itself": Edit("agent.py", "total += 1", "total += 2", QUOTE, "quote"),
    "a helper": Edit("agent.py", "n * factor", "n - factor", QUOTE, "agent.scale"),
    "a helper of a helper": Edit("agent.py", "return min(n,", "return max(n,", QUOTE, "agent.clamp"),
    "a helper of one line": Edit("agent.py", "def once(n): return n", "def once(n): return -n", QUOTE, "agent.once"),
    "the default of a helper": Edit("agent.py", "factor=2", "factor=3", QUOTE, "agent.scale"),
    "a constant": Edit("agent.py", '"Be brief."', '"Be long."', QUOTE, "agent.PROMPT"),
    "a constant behind a constant": Edit("agent.py", "RATE = 3", "RATE = 4", QUOTE, "agent.RATE"),
    "a table that a helper reads": Edit("agent.py", '"large": 100', '"large": 99', QUOTE, "agent.LIMITS"),
    "an entry that is set later": Edit("agent.py", "= 1000", "= 999", QUOTE, "agent.LIMITS"),
    "an element that is appended": Edit("agent.py", "append(3)", "append(4)", QUOTE, "agent.STEPS"),
    "one of two names in an assignment": Edit("agent.py", "RIGHT = 1, 2", "RIGHT = 5, 2", QUOTE, "agent.LEFT"),
    "a condition around a constant": Edit("agent.py", "if RATE > 2", "if RATE < 2", "source:search", "agent.MODE"),
    "a constant that a tool reads": Edit("agent.py", '"fast"', '"quick"', "source:search", "agent.MODE"),
    "the body of a decorator": Edit("agent.py", "        return fn(*args)\n    return inner", "        return -fn(*args)\n    return inner", QUOTE, "agent.logged"),
    "a decorator is removed": Edit("agent.py", "@logged\n", "", QUOTE, "agent.logged"),
    "the argument of a helper's decorator": Edit("agent.py", "@times(2)", "@times(3)", QUOTE, "agent.doubled"),
    "the decorator of a helper": Edit("agent.py", "fn(*args) * number", "fn(*args) + number", QUOTE, "agent.times"),
    "a method of a class that is made": Edit("agent.py", "self.check(self.n) *", "self.check(self.n) +", QUOTE, "agent.Basket.total"),
    "a special method": Edit("agent.py", "return self.n\n", "return self.n + 1\n", QUOTE, "agent.Basket.__len__"),
    "an attribute of a class": Edit("agent.py", "size = 4", "size = 5", QUOTE, "agent.Basket.size"),
    "a method of a base class": Edit("agent.py", "max(n, self.floor)", "min(n, self.floor)", QUOTE, "agent.Base.check"),
    "another base class": Edit("agent.py", "class Basket(Base)", "class Basket(Wide)", QUOTE, "agent.Basket"),
    "a field of a dataclass": Edit("shop/catalogue.py", "2.0", "3.0", QUOTE, "catalogue.Item"),
    "a type of a field": Edit("shop/catalogue.py", "n: int", "n: float", QUOTE, "catalogue.Item"),
    "a property in another module": Edit("shop/catalogue.py", "self.n *", "self.n +", QUOTE, "catalogue.Item.price"),
    "a helper in another module": Edit("rates.py", "return -n", "return -2 * n", QUOTE, "rates.discount"),
    "a helper of a helper in another module": Edit("rates.py", "n * FACTOR", "n + FACTOR", QUOTE, "rates._inner"),
    "a constant in another module": Edit("rates.py", "FACTOR = 2", "FACTOR = 3", QUOTE, "rates.FACTOR"),
    "a helper in a package by another name": Edit("shop/tax.py", "RATES[0]", "RATES[1]", QUOTE, "tax.duty"),
    "a constant in a package": Edit("shop/tax.py", "(1, 2)", "(1, 3)", QUOTE, "tax.RATES"),
    "a module behind a package": Edit("shop/numbers.py", "return 1", "return 3", QUOTE, "numbers.one"),
    "what a star import brings": Edit("shop/names.py", '"day": 1', '"day": 2', QUOTE, "names.NAMES"),
    "an imported helper is swapped": Edit("agent.py", "import discount", "import surcharge as discount", QUOTE, "rates.surcharge"),
    "an import in another module is swapped": Edit("shop/stock.py", "one as", "two as", QUOTE, "numbers.two"),
    "an import from a library is swapped": Edit("agent.py", "ROUND_UP as", "ROUND_DOWN as", QUOTE, "quote"),
    "a module of a library is swapped": Edit("agent.py", "import json", "import pickle as json", "source:late", "late"),
    "a module is swapped": Edit("agent.py", "import shop.tax as duties", "import shop.tax2 as duties", QUOTE, "tax2.duty"),
    "what is imported inside a function": Edit("shop/late.py", "return n", "return -n", "source:late", "late.lazily"),
    "a method that a method calls": Edit("agent.py", "check(n) - 1", "check(n) - 2", "source:sell (Seller.sell)", "agent.Seller._net"),
    "a constant of its class": Edit("agent.py", "    fee = 1", "    fee = 3", "source:sell (Seller.sell)", "agent.Seller.fee"),
    "how its object is made": Edit("agent.py", "bonus = 5", "bonus = 6", "source:sell (Seller.sell)", "agent.Seller.__init__"),
    "a helper inside of the same function": Edit("agent.py", "return n + step", "return n - step", "source:nested (main.nested)", "agent.helper"),
    "a value of the function around it": Edit("agent.py", "step = 7", "step = 8", "source:nested (main.nested)", "agent.step"),
    "a lambda by a name": Edit("tools.py", "x * x", "x + x", "source:work", "tools.square"),
    "a helper behind a partial": Edit("tools.py", "return a + b", "return a - b", "source:work", "tools.add"),
    "the argument of a partial": Edit("tools.py", "add, 2", "add, 3", "source:work", "tools.add_two"),
    "a helper in a table of helpers": Edit("tools.py", "return ~n", "return n", "source:work", "tools.invert"),
    "a table of helpers": Edit("tools.py", '"negate": negate', '"negate": invert', "source:work", "tools.HANDLERS"),
    "a coroutine": Edit("tools.py", "n + LIMIT\n\n\ndef", "n - LIMIT\n\n\ndef", "source:work", "tools.later"),
    "a generator": Edit("tools.py", "range(n, LIMIT", "range(1, LIMIT", "source:work", "tools.numbers"),
    "a member of an enum": Edit("tools.py", "RED = 1", "RED = 3", "source:work", "tools.Colour.RED"),
    "a pattern": Edit("tools.py", "[a-z]+", "[a-y]+", "source:work", "tools.WORD"),
    "a list made by a comprehension": Edit("tools.py", "name.upper()", "name.lower()", "source:work", "tools.NAMES"),
    "a class inside a class": Edit("tools.py", "return 3", "return 4", "source:work", "tools.Cart.Line"),
    "the setter of a property": Edit("tools.py", "n * 2", "n * 3", "source:work", "tools.Cart.amount"),
    "a class method": Edit("tools.py", "return cls()", "return cls", "source:work", "tools.Cart.empty"),
    "a method by another name": Edit("tools.py", "return round(n)", "return int(n)", "source:work", "tools.Cart.rounded"),
    "what a helper does to a global": Edit("tools.py", "COUNT += 1", "COUNT += 2", "source:work", "tools.touch"),
    "the other of two imports": Edit("tools.py", "import json as", "import pickle as", "source:work", "work"),
    "the width in an f-string": Edit("tools.py", ":>{LIMIT}", ":<{LIMIT}", "source:work", "work"),
}  # fmt: skip

INNOCENT = {
    "nothing": Edit("agent.py", "", ""),
    "a comment": Edit("agent.py", "RATE = 3\n", "RATE = 3  # as agreed\n"),
    "a comment in a helper": Edit("agent.py", "    return min(", "    # why\n    return min("),
    "a docstring of a helper": Edit("agent.py", '"""Keep it small."""', '"""Keep it\n\n    really small."""'),
    "a docstring is removed": Edit("agent.py", '    """Scale it."""\n', ""),
    "a docstring in a function of one line": Edit("agent.py", "def once(n): return n", 'def once(n):\n    """Once."""\n    return n'),
    "a docstring of a class": Edit("agent.py", '"""Holds things."""', '"""Holds many things."""'),
    "the docstring of the module": Edit("agent.py", '"""Quotes prices."""', '"""Prices."""'),
    "blank lines": Edit("agent.py", "\n\n\n", "\n\n\n\n\n"),
    "line breaks": Edit("agent.py", "min(n, LIMITS", "min(\n        n,\n        LIMITS"),
    "quotes": Edit("agent.py", '"Be brief."', "'Be brief.'"),
    "a text in two pieces": Edit("agent.py", '"Be brief."', '("Be " "brief.")'),
    "brackets": Edit("agent.py", "RATE * 2", "(RATE * 2)"),
    "how a number is written": Edit("agent.py", "= 1000", "= 1_000"),
    "a trailing comma": Edit("agent.py", '"large": 100}', '"large": 100,}'),
    "type hints of a helper": Edit("agent.py", "def clamp(n):", "def clamp(n: int) -> int:"),
    "a type hint of a constant": Edit("agent.py", "RATE = 3\n", "RATE: int = 3\n"),
    "a type hint of a variable": Edit("agent.py", "total: float =", "total ="),
    "a variable that only gets a type": Edit("agent.py", "    if registry:", "    more: int\n    if registry:"),
    "pass beside a statement": Edit("agent.py", "        total += 1\n", "        total += 1\n        pass\n"),
    "an unused function is changed": Edit("agent.py", "n + UNUSED", "n - UNUSED"),
    "an unused function is renamed": Edit("agent.py", "def unused(", "def unneeded("),
    "an unused function is removed": Edit("agent.py", "def unused(n):\n    return n + UNUSED\n", ""),
    "a new function": Edit("agent.py", "def clamp(n)", "def fresh(n):\n    return scale(n)\n\n\ndef clamp(n)"),
    "an unused constant": Edit("agent.py", "UNUSED = 1", "UNUSED = 2"),
    "a new constant": Edit("agent.py", "UNUSED = 1", "UNUSED = 1\nFRESH = 2"),
    "an unused method": Edit("agent.py", "def idle(self):\n        return 0", "def idle(self):\n        return 1"),
    "a new method": Edit("agent.py", "    def idle(self)", "    def fresh(self):\n        return 1\n\n    def idle(self)"),
    "another attribute of the class": Edit("agent.py", "other_fee = 2", "other_fee = 3"),
    "an unused function in another module": Edit("rates.py", "return +n", "return 2 * n"),
    "an unused name of a star import": Edit("shop/names.py", "HIDDEN = 1", "HIDDEN = 2"),
    "a new import": Edit("agent.py", "import math\n", "import math\nimport os\n"),
    "the order of imports": Edit("agent.py", "import json\nimport math\n", "import math\nimport json\n"),
    "hints become texts": Edit("agent.py", "import functools\n", "from __future__ import annotations\nimport functools\n"),
    "a new key": Edit("agent.py", '"sk-1"', '"sk-2"'),
    "how a tool is retried": Edit("agent.py", "retries=1", "retries=2"),
    "a line of a script at the end": Edit("agent.py", 'search("debt")\n', 'search("debt")\n\n\nif __name__ == "__main__":\n    print(scale(1))\n'),
    "a module that nobody reaches": Edit("shop/extra.py", "", "EXTRA = 1\n"),
    "a constant that an argument hides": Edit("tools.py", "SHADOW = 7", "SHADOW = 8"),
    "a constant that a comprehension hides": Edit("tools.py", "HIDDEN = 6", "HIDDEN = 8"),
    "a constant that a pattern hides": Edit("tools.py", "LAST = 1", "LAST = 2"),
    "a constant that is the name of an argument": Edit("tools.py", "\nUNSEEN = 1", "\nUNSEEN = 2"),
    "where a counter begins that is only counted": Edit("tools.py", "COUNT = 0", "COUNT = 1"),
    "a method that nobody names": Edit("tools.py", "def quiet(self):\n        return", "def quiet(self):\n        return 1 +"),
}  # fmt: skip
