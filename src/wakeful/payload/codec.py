"""One handler's payloads: bound as a call would bind them, encoded checked, decoded typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, Final

import msgspec

from wakeful.payload.annotations import Arguments, Decoders, build_decoders
from wakeful.payload.encode import DEFAULT_LIMIT_BYTES, as_dict, check_text, refuse_fault, to_text
from wakeful.payload.faults import MOST_LEVELS
from wakeful.payload.losses import first_loss
from wakeful.payload.plain import ENCODER
from wakeful.payload.refusal import decode_refusal
from wakeful.payload.signature import IsContext, Signature, read_signature
from wakeful.payload.text import may_hold_naive_datetime, may_hold_nul, nests_deeper
from wakeful.values.errors import PayloadError

_RAW_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ROWS_AT_ONCE: Final = 500


def _no_context(annotation: object) -> bool:
    return False


class PayloadCodec:
    """Built once per handler, shared by threads. Annotations are evaluated at the first use."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self._names = frozenset(signature.annotations)

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        *,
        is_context: IsContext = _no_context,
        namespace: Mapping[str, Any] | None = None,
    ) -> PayloadCodec:
        """Reads the signature.

        `is_context` tells the parameter that the worker fills; it is asked with the type, or with the
        annotation's text where that means nothing at run time. `namespace` adds names for annotations, such
        as a function's locals.
        """
        return cls(read_signature(function, is_context, namespace))

    @cached_property
    def _decoders(self) -> Decoders:
        return build_decoders(self.signature)

    @property
    def context(self) -> str | None:
        """The parameter that the worker fills with the running job's context."""
        return self.signature.context

    def resolve(self) -> None:
        """Evaluates the annotations now, so that a wrong one is told at start and not at the first job."""
        _ = self._decoders

    def bind(self, /, *args: object, **kwargs: object) -> Arguments:
        """The arguments by name, refused as the call would refuse them. Defaults are left to the handler."""
        if not args:
            return self.bind_mapping(kwargs)
        signature = self.signature
        if len(args) > len(signature.positional):
            raise PayloadError(
                "",
                f"has {len(args)} positional arguments, but {signature.name} takes "
                f"{len(signature.positional)}: leave out the rest, or give them by name.",
            )
        bound = dict(zip(signature.positional, args, strict=False))
        for name in kwargs:
            if name in bound:
                raise PayloadError(name, f"of {signature.name} is given twice: by position and by name; give it once.")
        bound.update(kwargs)
        return self.bind_mapping(bound)

    def bind_mapping(self, arguments: Mapping[str, object]) -> Arguments:
        """`bind(**arguments)` for a mapping that is at hand."""
        bound = arguments if type(arguments) is dict else dict(as_dict(arguments))
        keys = bound.keys()
        if not (keys <= self._names and keys >= self.signature.required):
            self._check_names(bound)
        return bound

    def encode(self, bound: Arguments, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> str:
        """JSON text of bound arguments that `decode` will take; a PayloadError names what it would not."""
        text = to_text(bound)
        check_text(text, bound, limit_bytes)
        arrives = self._arriving(text, bound)
        if not self._is_certain(text, arrives, bound):
            self._check_names(bound)
            refuse_fault(bound, arrives)
            if (loss := first_loss(msgspec.json.decode(text), arrives)) is not None:
                raise PayloadError(loss.field, loss.problem)
        return text.decode()

    def decode(self, text: str | bytes) -> Arguments:
        """The typed arguments for the handler, as keywords; a PayloadError names what does not fit."""
        arguments = self._read(text)
        if not self.signature.takes_extra:
            given = _RAW_MEMBERS.decode(text)
            if len(given) != len(arguments):
                self._check_names(given)
        if self._decoders.holds_datetimes and may_hold_naive_datetime(text):
            refuse_fault(arguments, arguments)
        return arguments

    def all_certain(self, texts: list[bytes], rows: list[Arguments], limit_bytes: int) -> bool:
        """Whether the fast checks pass for all rows at once; False means: look at each."""
        if max(map(len, texts), default=0) > limit_bytes or any(nests_deeper(text, MOST_LEVELS) for text in texts):
            return False
        if self.signature.takes_extra:
            return False
        whole = b"[" + b",".join(texts) + b"]"
        try:
            return self._is_certain(whole, self._decoders.many.decode(whole), rows)
        except msgspec.DecodeError:
            return False

    def _is_certain(self, text: bytes, arrives: object, sent: object) -> bool:
        decoders = self._decoders
        return not (
            arrives != sent
            or may_hold_nul(text)
            or (decoders.equality_is_doubtful and b"null" in text)
            or (decoders.holds_datetimes and may_hold_naive_datetime(text))
        )

    def _arriving(self, text: bytes, bound: Arguments) -> Arguments:
        try:
            return self._read(text)
        except PayloadError:
            # NaN is written as null: tell what was sent, not what would have arrived.
            refuse_fault(bound, bound)
            raise

    def _read(self, text: str | bytes) -> Arguments:
        decoders = self._decoders
        try:
            arguments = decoders.one.decode(text)
        except msgspec.DecodeError as error:
            raise decode_refusal(error, text, decoders.one, self.signature.name) from error
        if self.signature.takes_extra:
            given = _RAW_MEMBERS.decode(text)
            others = ENCODER.encode({name: raw for name, raw in given.items() if name not in self._names})
            try:
                arguments.update(decoders.extra.decode(others))
            except msgspec.DecodeError as error:
                raise decode_refusal(error, others, decoders.extra, self.signature.name) from error
        return arguments

    def _check_names(self, given: Mapping[str, object]) -> None:
        signature = self.signature
        for name in signature.annotations:
            if name in signature.required and name not in given:
                raise PayloadError(name, f"is missing: {signature.name} needs it, so pass {name}=….")
        for name in given:
            if name == signature.context:
                raise PayloadError(name, f"of {signature.name} is filled in by the worker: leave it out.")
            if name not in self._names and not (signature.takes_extra and isinstance(name, str)):
                takes = ", ".join(signature.annotations) or "no arguments"
                raise PayloadError(
                    str(name), f"is not an argument of {signature.name}, which takes {takes}: correct it."
                )


def encode_many(
    codec: PayloadCodec, mappings: Iterable[Mapping[str, object]], *, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> list[str]:
    """JSON texts of many calls' keyword arguments, in order; an error names its row: `[17].order`."""
    rows = iter(mappings)
    texts: list[str] = []
    while chunk := list(islice(rows, _ROWS_AT_ONCE)):
        texts += _encode_chunk(codec, chunk, len(texts), limit_bytes)
    return texts


def _encode_chunk(codec: PayloadCodec, chunk: list[Mapping[str, object]], first: int, limit_bytes: int) -> list[str]:
    try:
        bound = [codec.bind_mapping(arguments) for arguments in chunk]
        texts = [to_text(arguments) for arguments in bound]
        if codec.all_certain(texts, bound, limit_bytes):
            return [text.decode() for text in texts]
    except PayloadError:
        pass  # Told below, with its row.
    return [_encode_row(codec, row, arguments, limit_bytes) for row, arguments in enumerate(chunk, first)]


def _encode_row(codec: PayloadCodec, row: int, arguments: Mapping[str, object], limit_bytes: int) -> str:
    try:
        return codec.encode(codec.bind_mapping(arguments), limit_bytes=limit_bytes)
    except PayloadError as error:
        raise PayloadError(f"[{row}].{error.field}".rstrip("."), error.problem) from None
