"""How gunicorn runs a chat: as many workers as its working memory can serve.

A working memory that is kept in the process (`memory:`) is shared by the threads of one worker
but not by several workers: each would remember turns that the others know nothing of, and would
lock nobody out but itself. So there is one worker then, with more threads. With Redis there may
be as many workers, and machines, as you like, also if the messages are in a JSON file: that one
is safe among the processes of one machine.
"""

import os

_shared = os.environ.get("JAZZMINE_WORKING_MEMORY", "memory:").startswith("redis")

worker_class = "gthread"
workers = 4 if _shared else 1
threads = 4 if _shared else 16
