"""`python` targets that keep the conversation themselves: an object of the user's for each conversation.

It is made, entered where it is a context manager, asked and left in one task, because managers of asynchronous
libraries must be left by the task that entered them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from rejoinder.model import Request
from rejoinder.providers.python import PythonProvider, parameters_of, plain_messages
from rejoinder.user_code import FunctionFault, call_function, in_words, raised_at

_WORDS = frozenset({"prompt", "text", "message", "question"})
"""Parameters of `ask` that get the words that are new."""


class _Question(Struct, frozen=True, eq=False):
    request: Request
    answer: asyncio.Future[Any]


class _Conversation:
    """One conversation with an object, in a task of its own."""

    def __init__(self, name: str, folders: tuple[str, ...], make: Callable[..., Any]) -> None:
        self._name = name
        self._folders = folders
        self._make = make
        self._is_busy = False
        self._questions: asyncio.Queue[_Question | None] = asyncio.Queue()
        self._task = asyncio.ensure_future(self._live())

    async def ask(self, request: Request) -> Any:
        """Raises FunctionFault."""
        question = _Question(request, asyncio.get_running_loop().create_future())
        self._questions.put_nowait(question)
        await asyncio.wait([self._task, question.answer], return_when="FIRST_COMPLETED")
        if not question.answer.done():
            error = self._task.exception()
            raise error if isinstance(error, FunctionFault) else self._fault(error)
        return question.answer.result()

    async def end(self) -> None:
        """Leave the object. What it raises now is not told: everything was said."""
        self._questions.put_nowait(None)
        if self._is_busy:
            self._task.cancel()  # nobody waits for its answer any more
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            self._task.cancel()
            raise

    async def _live(self) -> None:
        named = {"request": await self._first_request()} if "request" in parameters_of(self._make) else {}
        made = await call_function(self._name, self._folders, self._make, **named)
        if hasattr(made, "__aenter__"):
            async with _Told(made, self._fault) as entered:
                await self._answer_all(entered)
        elif hasattr(made, "__enter__"):
            entered = await call_function(self._name, self._folders, made.__enter__)
            try:
                await self._answer_all(entered)
            finally:
                await call_function(self._name, self._folders, made.__exit__, None, None, None)
        else:
            await self._answer_all(made)

    async def _first_request(self) -> Request:
        """The first request, left in its place."""
        question = await self._questions.get()
        assert question is not None
        self._questions.put_nowait(question)
        return question.request

    async def _answer_all(self, made: Any) -> None:
        function = getattr(made, "ask", None)
        if function is None:
            raise FunctionFault(f"`{self._name}` made {type(made).__name__}, which has no `ask`")
        while (question := await self._questions.get()) is not None:
            self._is_busy = True
            try:
                answer = await self._call(function, question.request)
            except FunctionFault as fault:
                _settle(question.answer, None, fault)
            else:
                _settle(question.answer, answer, None)
            self._is_busy = False

    async def _call(self, function: Callable[..., Any], request: Request) -> Any:
        parameters = parameters_of(function)
        words = "\n\n".join(message.content for message in request.new_messages if message.role != "system")
        known = {"request": request, "messages": plain_messages(request.new_messages)}
        known |= dict.fromkeys(_WORDS, words)
        named = {name: value for name, value in known.items() if name in parameters}
        if named:
            return await call_function(self._name, self._folders, function, **named)
        return await call_function(self._name, self._folders, function, request)

    def _fault(self, error: BaseException | None) -> FunctionFault:
        if error is None:
            return FunctionFault(f"`{self._name}` ended the conversation")
        return FunctionFault(f"`{self._name}` raised {in_words(error)}{raised_at(error, self._folders)}", error)


class _Told:
    """An asynchronous context manager of the user's whose errors are told as theirs."""

    def __init__(self, made: Any, fault: Callable[[BaseException], FunctionFault]) -> None:
        self._made = made
        self._fault = fault

    async def __aenter__(self) -> Any:
        try:
            return await self._made.__aenter__()
        except Exception as error:
            raise self._fault(error) from error

    async def __aexit__(self, *raised: object) -> None:
        try:
            await self._made.__aexit__(*raised)
        except FunctionFault:
            raise
        except Exception as error:
            raise self._fault(error) from error


def _settle(answer: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if not answer.done():
        answer.set_exception(error) if error is not None else answer.set_result(value)


class ObjectProvider(PythonProvider):
    keeps_history = True

    def __init__(self, name: str, make: Callable[..., Any], folders: tuple[str, ...]) -> None:
        super().__init__(name, make, folders)
        self._open: dict[str, _Conversation] = {}

    async def _call(self, request: Request) -> Any:
        conversation = self._open.get(request.conversation_id)
        if conversation is None:
            conversation = _Conversation(self._name, self._folders, self._function)
            self._open[request.conversation_id] = conversation
        return await conversation.ask(request)

    async def end(self, request: Request, *, failed: bool) -> None:  # noqa: ARG002
        conversation = self._open.pop(request.conversation_id, None)
        if conversation is not None:
            await conversation.end()
