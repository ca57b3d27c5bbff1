"""A loopback server with the Hub's HTTP interface, for the real client of huggingface_hub."""

from tests.support.hub_repository import Repository
from tests.support.hub_server.server import TOKEN, LoopbackHub

__all__ = ["TOKEN", "LoopbackHub", "Repository"]
