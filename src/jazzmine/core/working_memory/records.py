"""The parts of a working memory, under the path that jazzmine 0.1 had for them."""

from jazzmine.records.flow import FlowRecord as FlowRecord
from jazzmine.records.flow import PendingConfirmation as PendingConfirmation
from jazzmine.records.flow import Slot as Slot
from jazzmine.records.tool_call import *
from jazzmine.records.turn import TopicShift as TopicShift
from jazzmine.records.turn import WorkspaceEntity as WorkspaceEntity
