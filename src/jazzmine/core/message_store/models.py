"""The records of a message store, under the path that jazzmine 0.1 had for them."""

from jazzmine.records.messages import *
from jazzmine.records.traces import *
from jazzmine.records.usage import *
