"""The URLs of the project and their views."""

from chat import views
from django.urls import path

urlpatterns = [
    path("conversations/<str:cid>/messages", views.messages),
    path("health", views.health),
]
