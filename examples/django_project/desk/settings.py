"""The settings of a Django project whose only data are conversations."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).parents[1]

# What MessageStore.initialize() and WorkingMemoryStore.initialize() accept: a URL, as here,
# or a dictionary, as {"storage": "postgres", "dsn": "…", "pool_max": 4}.
JAZZMINE = {
    "message_store": os.environ.get("JAZZMINE_MESSAGE_STORE", f"json:{BASE_DIR / 'messages.json'}"),
    "working_memory": os.environ.get("JAZZMINE_WORKING_MEMORY", "memory:"),
}

SECRET_KEY = os.environ.get("DJANGO_SECRET_KEY", "not a secret: for trying out, alone")
DEBUG = os.environ.get("DJANGO_DEBUG") == "1"
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
INSTALLED_APPS = ["chat"]
MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]
ROOT_URLCONF = "desk.urls"
WSGI_APPLICATION = "desk.wsgi.application"
DATABASES: dict[str, dict[str, object]] = {}
USE_TZ = True
