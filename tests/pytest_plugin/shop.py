"""A team's own bot: a FastAPI app that answers from a database and writes down what it was asked."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TypeAlias

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from rejoinder import Request

Bot: TypeAlias = Callable[[Request], Awaitable[str]]


class Question(BaseModel):
    message: str


def make_database(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path)
    database.executescript("CREATE TABLE returns (item, days); CREATE TABLE asked (item);")
    database.executemany("INSERT INTO returns VALUES (?, ?)", [("shoes", 30), ("books", 14), ("hats", 7)])
    return database


def make_app(database: sqlite3.Connection) -> FastAPI:
    app = FastAPI()

    @app.post("/chat")
    async def chat(question: Question) -> dict[str, str]:
        item = question.message.rstrip("?").split()[-1]
        database.execute("INSERT INTO asked VALUES (?)", (item,))
        row = database.execute("SELECT days FROM returns WHERE item = ?", (item,)).fetchone()
        return {"reply": f"Yes, within {row[0]} days." if row else "I do not know."}

    return app


@asynccontextmanager
async def bot_in(folder: Path) -> AsyncGenerator[tuple[Bot, sqlite3.Connection]]:
    """The bot behind an async client, and its database."""
    with closing(make_database(folder / "shop.db")) as database:
        transport = httpx.ASGITransport(make_app(database))
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:

            async def bot(request: Request) -> str:
                answer = await client.post("/chat", json={"message": request.messages[-1].content})
                return answer.raise_for_status().json()["reply"]

            yield bot, database
