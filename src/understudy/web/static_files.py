"""Scripts and styles of the pages, by their names: what is not among them does not exist, whatever the path says."""

import mimetypes
from functools import cache

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from understudy.view.html.assets import STATIC


async def static_file(request: Request) -> Response:
    found = _files().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    content, kind = found
    return Response(content, media_type=kind)


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """They are small, and stay the same while a page is served."""
    return {
        path.relative_to(STATIC).as_posix(): (path.read_bytes(), mimetypes.guess_type(path.name)[0] or "text/plain")
        for path in sorted(STATIC.rglob("*"))
        if path.is_file()
    }
