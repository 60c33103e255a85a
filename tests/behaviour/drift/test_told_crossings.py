"""``unclaimed="tell"`` in a fork and in the taker of a handoff: the model is told of the effect, and nothing is done twice."""

import pytest

import holdfast

PAID: list[str] = []


def pay(who: str) -> str:
    PAID.append(who)
    return f"receipt for {who}"


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    PAID.clear()


def asks(store: holdfast.Store, name: str, *names: str) -> list[str]:
    """What the model reads, if it asks for these payments."""
    run = holdfast.run(name, store=store, unclaimed="tell").open()
    read = []
    for who in names:
        try:
            read.append(run.once("pay", pay, who))
        except holdfast.EffectNotMade as told:
            read.append(str(told))
    run.close()
    return read


def test_a_fork_behind_the_effect_is_told(url: str) -> None:
    """The effect is in its history. Told, the model asks for it, and for what it wanted besides."""
    store = holdfast.store(url)
    asks(store, "shop", "Ada")
    store.fork("shop", as_="fork")
    (told,) = asks(store, "fork", "Zoe")
    assert "pay(who='Ada')" in told
    assert "receipt for Ada" in told
    assert asks(store, "fork", "Zoe", "Ada", "Zoe") == [told, "receipt for Ada", "receipt for Zoe"]
    assert asks(store, "shop", "Ada") == ["receipt for Ada"]
    assert PAID == ["Ada", "Zoe"]


def test_what_a_fork_was_told_is_its_own(url: str) -> None:
    """A fork at the point where its origin was told replays the same text; the origin is not changed by its decision."""
    store = holdfast.store(url)
    asks(store, "shop", "Ada")
    (told,) = asks(store, "shop", "Zoe")
    store.fork("shop", as_="fork")
    assert asks(store, "fork", "Zoe", "Ada", "Zoe") == [told, "receipt for Ada", "receipt for Zoe"]
    assert asks(store, "shop", "Zoe") == [told]
    assert PAID == ["Ada", "Zoe"]


def test_a_fork_before_the_effect_is_answered(url: str) -> None:
    """The same call has the recorded outcome; another one is made, since the fork's history has no effect to claim."""
    store = holdfast.store(url)
    asks(store, "shop", "Ada")
    store.fork("shop@#2", as_="fork")
    assert asks(store, "fork", "Zoe", "Ada") == ["receipt for Zoe", "receipt for Ada"]
    assert PAID == ["Ada", "Zoe"]


def test_a_taker_is_answered_by_the_handoff(url: str) -> None:
    """Whatever way its model takes, what the giver did is answered once, and never made."""
    store = holdfast.store(url)
    asks(store, "shop", "Ada")
    store.accept(store.handoff("shop", to="taker", seal=True), as_="taker")
    first = asks(store, "taker", "Zoe", "Ada")
    assert first[1] == "receipt for Ada"
    assert PAID.count("Ada") == 1
    assert asks(store, "taker", "Zoe", "Ada") == first
    assert PAID == ["Ada", "Zoe"]


def test_a_taker_of_a_told_run(url: str) -> None:
    """What the giver's model was told is not handed over as an effect: the call was not made."""
    store = holdfast.store(url)
    asks(store, "shop", "Ada")
    asks(store, "shop", "Zoe")
    document = store.handoff("shop", to="taker", seal=True)
    assert [one["step"] for one in document["effects"]] == ["pay"]
    assert document["in_doubt"] == []
    store.accept(document, as_="taker")
    assert asks(store, "taker", "Ada", "Zoe") == ["receipt for Ada", "receipt for Zoe"]
    assert PAID == ["Ada", "Zoe"]
