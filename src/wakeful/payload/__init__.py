"""The payload's door: arguments to JSON text and back, checked going in, typed coming out."""

from __future__ import annotations

from wakeful.payload.codec import PayloadCodec, encode_many
from wakeful.payload.encode import DEFAULT_LIMIT_BYTES, encode, encode_result
from wakeful.payload.sanitise import sanitise, sanitise_json

__all__ = [
    "DEFAULT_LIMIT_BYTES",
    "PayloadCodec",
    "encode",
    "encode_many",
    "encode_result",
    "sanitise",
    "sanitise_json",
]
