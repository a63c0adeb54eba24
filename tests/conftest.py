"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Wall-clock never decides a test: these machines are shared.
settings.register_profile(
    "perdure", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("perdure")
