"""Pages in a browser: the live page and the review. They need the extra `web`."""

from importlib.util import find_spec

from understudy.errors import missing_extra


def check_installed(what: str) -> None:
    """Called before any other module of this room is imported."""
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise missing_extra(what, "web")
