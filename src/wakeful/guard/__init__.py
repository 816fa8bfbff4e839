"""Guards for calls that may fail: circuit breakers, time limits and retries, in handlers and on their own."""

from wakeful.guard.alone import with_retry, with_timeout
from wakeful.guard.breaker import Breaker

__all__ = ["Breaker", "with_retry", "with_timeout"]
