"""URLs and paths of stores: what a configuration, an environment or an export names. Nothing is opened."""

from contextlib import suppress

from holdfast.errors import BadUrl
from holdfast.stores.url import (
    depends_on_directory,
    is_same_place,
    lease_s_of,
    place_of,
    url_of,
    without_password,
)


def check(data: bytes) -> None:
    """BadUrl, or a place whose own URL names the same place; a password is in nothing that is shown."""
    text = data.decode("utf-8", "surrogateescape")
    shown = without_password(text)
    try:
        place = place_of(text, start_dir="/nowhere")
    except BadUrl as error:
        refused = f"{error} {error.hint} {shown}"
    else:
        refused = ""
    if refused:
        hidden = _password_in(text)
        assert not hidden or hidden not in refused, text
        return
    assert place_of(url_of(place), start_dir="/nowhere") == place, (text, place, url_of(place))
    assert is_same_place(text, url_of(place)) or not depends_on_directory(text) or place.scheme == "sqlite"
    lease_s = lease_s_of(text)
    assert lease_s is None or 0 < lease_s < float("inf")
    if place.password and len(place.password) > 3:
        assert place.password not in shown.replace(place.name, ""), (text, shown)
        assert place.password not in place.name or place.password in text.replace(place.password, "", 1), text
    with suppress(BadUrl):
        place_of(shown)


def _password_in(text: str) -> str:
    """The password of a URL of a server that has one in the usual place, and nowhere else the same text."""
    scheme, sign, rest = text.partition("://")
    user, colon, password = rest.partition("@")[0].partition(":")
    if (
        not sign
        or not colon
        or scheme.lower() not in {"postgres", "postgresql", "dynamodb"}
        or "@" not in rest
    ):
        return ""
    alone = len(password) > 5 and text.count(password) == 1 and not set("/?#%&=") & set(password)
    return password if alone and user else ""
