"""The enums of working memory, under the path that jazzmine 0.1 had for them."""

from jazzmine.records.enums import *
