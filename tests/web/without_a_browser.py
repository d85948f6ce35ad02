"""Asks an app as a browser would, cookies included, without a port and without a thread."""

import asyncio
from typing import Any

import httpx
from starlette.types import ASGIApp


class Visitor:
    def __init__(self, app: ASGIApp, at: str):
        self.app, self.at = app, at
        self.cookies: dict[str, str] = {}

    def get(self, path: str, **others: Any) -> httpx.Response:
        return self.ask("GET", path, **others)

    def post(self, path: str, **others: Any) -> httpx.Response:
        return self.ask("POST", path, **others)

    def ask(self, method: str, path: str, *, headers: dict[str, str] | None = None, **others: Any) -> httpx.Response:
        own = {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}

        async def asked() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=self.at) as client:
                return await client.request(method, path, headers={**own, **(headers or {})}, **others)

        answer = asyncio.run(asked())
        for said in answer.headers.get_list("set-cookie"):
            name, _, value = said.split(";")[0].partition("=")
            self.cookies[name] = value
        return answer
