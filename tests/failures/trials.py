"""All trials, by name, with what each shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.failures.fair import fair
from tests.failures.letters import letters
from tests.failures.limit import limit
from tests.failures.outage import outage
from tests.failures.rate import rate
from tests.failures.trial import Trial

TRIALS: Final[Mapping[str, Trial]] = {
    "limit": limit,
    "rate": rate,
    "outage": outage,
    "fair": fair,
    "letters": letters,
}
