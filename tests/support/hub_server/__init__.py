"""A loopback server that speaks the Hugging Face Hub's HTTP interface.

Well enough, that is, for the unmodified huggingface_hub and datasets clients to create data set
repositories, upload, commit, tag, list, download and stream through ``HF_ENDPOINT``. It believes
nothing: digests, sizes and commit payloads are checked, and what is wrong is refused.
"""

from tests.support.hub_server.repository import Repository
from tests.support.hub_server.server import TOKEN, LoopbackHub

__all__ = ["TOKEN", "LoopbackHub", "Repository"]
