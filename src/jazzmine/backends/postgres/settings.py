"""The settings of a store's sessions on the server."""

from __future__ import annotations

__all__ = ["SETTINGS", "WRONG_SETTINGS"]

# Settings with which a store would go wrong, what it needs, and what is replaced by that. Functions
# that lock rows and then read what was committed before need READ COMMITTED; numbers are rounded
# with less than one extra digit.
_NEEDED = f"""
    ('default_transaction_isolation', 'read committed', ARRAY['repeatable read', 'serializable']),
    ('extra_float_digits', '1', ARRAY{[str(digits) for digits in range(-15, 1)]})
"""

# Besides, the server ends a statement after the time of a call, or when its client has disappeared,
# and one that waits for a locked row lets another one have its connection: its store tries again.
# A connection pooler, which reports its own process ids, shares sessions among clients, so nothing
# is set there. A setting that the server does not have is not changed.
SETTINGS = f"""
SELECT set_config(name, value, false)
FROM (VALUES
    ('statement_timeout', %(timeout)s, ARRAY['0']),
    ('lock_timeout', %(lock_timeout)s, ARRAY['0']),
    ('client_connection_check_interval', %(interval)s, ARRAY['0']),
    ('tcp_user_timeout', %(timeout)s, ARRAY['0']),
    {_NEEDED}
) AS settings (name, value, replaced)
WHERE pg_backend_pid() = %(pid)s AND current_setting(name, true) = ANY(replaced)
"""

# The settings that stay wrong behind a pooler.
WRONG_SETTINGS = f"""
SELECT quote_ident(current_user), name, current_setting(name), value
FROM (VALUES {_NEEDED}) AS settings (name, value, replaced)
WHERE pg_backend_pid() <> %(pid)s AND current_setting(name) = ANY(replaced)
"""
