"""Parameters that are PostgreSQL's text before a driver sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from wakeful.statements.arrays import array_of, text_of


class Written(Mapping[str, str | None]):
    """A statement's parameters in the order in which its SQL first names them, as the bytes that are sent.

    To any driver it is a mapping of names to texts. Our own connections take `texts` as they are: to look twenty names
    up and to write their values takes as long as all else that is done to send them.
    """

    __slots__ = ("names", "texts")

    def __init__(self, names: Sequence[str], texts: list[bytes | None]) -> None:
        self.names = names
        self.texts = texts

    def __getitem__(self, name: str) -> str | None:
        try:
            text = self.texts[self.names.index(name)]
        except ValueError:
            raise KeyError(name) from None
        return None if text is None else text.decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def written(values: Iterable[object]) -> list[bytes | None] | None:
    """The values' texts; None where one of them cannot be sent in this way, and a cursor is to say so."""
    try:
        texts = [None if value is None else _encoded(value) for value in values]
    except (TypeError, UnicodeEncodeError):
        return None
    # libpq ends a text at its first zero byte.
    return None if any(text is not None and b"\0" in text for text in texts) else texts


def _encoded(value: object) -> bytes:
    if type(value) is str:
        return value.encode()
    return (array_of(value) if isinstance(value, list) else text_of(value) or "").encode()
