"""How gunicorn runs a chat: as many workers as its working memory can serve.

A working memory in the process (`memory:`) is shared by the threads of one worker, but not by
several workers: they would have different turns, and their locks would not exclude each other. So
there is one worker then, with more threads. With SQLite there may be any number of workers on one
machine, with PostgreSQL or Redis on any number of machines. A JSON file for the messages is safe
for the processes of one machine.
"""

import os

_shared = not os.environ.get("JAZZMINE_WORKING_MEMORY", "memory:").startswith("memory")

worker_class = "gthread"
workers = 4 if _shared else 1
threads = 4 if _shared else 16
