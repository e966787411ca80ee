"""The views of the chat."""

from __future__ import annotations

import chat_rules
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_GET, require_http_methods
from sync_turn import turn

from chat.stores import message_store, working_memory
from jazzmine import IntegrityError, LockTimeoutError, NotFoundError, StoreUnavailableError


@require_http_methods(["GET", "POST"])
def messages(request: HttpRequest, cid: str) -> JsonResponse:
    """POST: one turn. GET: the user's conversation, a page at a time."""
    try:
        if request.method == "POST":
            said = chat_rules.Said.read(cid, request.body)
            reply = turn(message_store(), working_memory(), said)
            return JsonResponse({"reply": reply.original_content})
        own = message_store().scoped(user_id=chat_rules.reader(request.GET.get("user_id")))
        page = own.get_messages_by_conversation_id(cid, limit=100, after=request.GET.get("after"))
        return JsonResponse([each.model_dump(mode="json") for each in page], safe=False)
    except chat_rules.RequestError as error:
        return JsonResponse({"error": str(error)}, status=error.status)
    except IntegrityError:
        return JsonResponse({"error": "this is another user's conversation"}, status=403)
    except NotFoundError as error:
        return JsonResponse({"error": str(error)}, status=404)
    except (StoreUnavailableError, LockTimeoutError) as error:
        # The client may repeat the request a little later; nothing is stored twice.
        return JsonResponse({"error": str(error)}, status=503, headers={"Retry-After": "1"})


@require_GET
def health(request: HttpRequest) -> JsonResponse:
    """GET: whether the stores can be reached."""
    message_store().ping()
    working_memory().get("health")
    return JsonResponse({"ready": True})
