"""Which faults are part of the suite, and which of the soak alone."""

from __future__ import annotations

from tests.faults.sizes import SOAK

# They disturb servers and networks for minutes, and want a machine of their own.
collect_ignore = (
    []
    if SOAK
    else [
        "test_cancelled.py",
        "test_histories.py",
        "test_hostile_input.py",
        "test_network.py",
        "test_secrets.py",
        "test_server_killed.py",
        "test_threads_and_forks.py",
    ]
)
