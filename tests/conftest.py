"""What every test may ask for, and what no test may inherit from the machine it runs on."""

from __future__ import annotations

import os
from importlib.metadata import entry_points

import pytest
from hypothesis import HealthCheck, settings

# A machine that is busy elsewhere makes no test fail.
settings.register_profile("wakeful", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wakeful")

# Installed, the package brings its plugin along; from a bare checkout the plugin has to be named.
_INSTALLED = bool(entry_points(group="pytest11", name="wakeful"))
pytest_plugins = [] if _INSTALLED else ["wakeful.edges.testing.plugin"]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts without the developer's own WAKEFUL_* and DATABASE_URL."""
    for name in list(os.environ):
        if name == "DATABASE_URL" or (name.startswith("WAKEFUL_") and not name.startswith("WAKEFUL_TEST_")):
            monkeypatch.delenv(name)
