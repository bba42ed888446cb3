"""`python` targets that keep the conversation themselves: one object of the user per conversation, or a function that
knows conversations by their id.

An object is made, entered if it is a context manager, asked and left in one task, because managers of asynchronous
libraries must be left by the task that entered them. Blocking code runs in a thread that belongs to the conversation:
database connections, for example, must not be used by another thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from msgspec import Struct, structs

from rejoinder.model import Reply, Request
from rejoinder.providers.base import ProviderError
from rejoinder.providers.python import PythonProvider, parameters_of, plain_messages
from rejoinder.user_code.functions import FunctionFault, in_words, raised_at

_WORDS = frozenset({"prompt", "text", "message", "question"})
"""Parameters of `ask` that get the new words."""


def makes_conversations(function: Callable[..., Any]) -> bool:
    """Whether it is a class, or a context manager, whose object is asked. Raises FunctionFault for a class that is
    neither."""
    if not inspect.isclass(function):
        inner = inspect.unwrap(function)
        return inner is not function and (inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner))
    if any(hasattr(function, name) for name in ("ask", "__aenter__", "__enter__")):
        return True
    if issubclass(function, str | dict | Reply):
        return False
    raise FunctionFault(f"the class `{function.__name__}` has no method `ask`")


class _Question(Struct, frozen=True, eq=False):
    request: Request
    answer: asyncio.Future[Any]


class _Thread:
    """Calls functions that may block, one after the other. It does not keep the program from ending."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] | None = None
        self.is_busy = False

    async def call(self, function: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def work() -> None:
            value, error = None, None
            try:
                value = function()
            except BaseException as raised:
                special = isinstance(raised, StopIteration | GeneratorExit)  # which no future can hold
                instead = RuntimeError(type(raised).__name__).with_traceback(raised.__traceback__)
                error = instead if special else raised
            self.is_busy = False
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, answer, value, error)

        self.is_busy = True
        self._begun().put(work)
        return await answer

    def end(self) -> None:
        if self._calls is not None:
            self._calls.put(None)

    def _begun(self) -> SimpleQueue[Callable[[], None] | None]:
        calls = self._calls
        if calls is None:
            calls = self._calls = SimpleQueue()
            threading.Thread(target=_work_off, args=(calls,), name="rejoinder-python", daemon=True).start()
        return calls


def _work_off(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()


class _Conversation:
    """One conversation with an object, in a task of its own."""

    def __init__(self, name: str, folders: tuple[str, ...], make: Callable[..., Any]) -> None:
        self._name = name
        self._folders = folders
        self._make = make
        self._is_waiting = False
        """Whether everything that was asked is answered."""
        self._has_told = False
        """Whether the error that ended it was raised as an answer."""
        self._thread = _Thread()
        self._questions: asyncio.Queue[_Question | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def ask(self, request: Request) -> Any:
        """Ask the object. Raises FunctionFault."""
        question = _Question(request, asyncio.get_running_loop().create_future())
        self._questions.put_nowait(question)
        if self._task is None:
            self._task = asyncio.create_task(self._live(request))
        try:
            await asyncio.wait([self._task, question.answer], return_when="FIRST_COMPLETED")
        except asyncio.CancelledError:
            question.answer.cancel()
            raise
        if question.answer.done():
            return question.answer.result()
        self._has_told = True
        raise _end_of(self._task) or FunctionFault(f"`{self._name}` ended the conversation")

    async def end(self) -> None:
        """Leave the object. Raises FunctionFault if that fails."""
        if self._task is None:
            return
        self._questions.put_nowait(None)
        if not self._is_waiting:
            self._task.cancel()  # its answer is not waited for any more
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        fault = _end_of(self._task)
        if fault is not None and not self._has_told:
            raise fault

    async def _live(self, first: Request) -> None:
        named = {"request": first} if "request" in parameters_of(self._make) else {}
        try:
            made = await self._run(lambda: self._make(**named), may_block=not _is_async(self._make))
            if hasattr(made, "__aenter__"):
                await self._within(made, made.__aenter__, made.__aexit__, may_block=False)
            elif hasattr(made, "__enter__"):
                await self._within(made, made.__enter__, made.__exit__, may_block=not _is_async(self._make))
            else:
                await self._answer_all(made)
        finally:
            self._thread.end()

    async def _within(self, made: Any, enter: Callable[[], Any], leave: Callable[..., Any], *, may_block: bool) -> None:
        entered = await self._run(enter, may_block=may_block)
        try:
            await self._answer_all(made if entered is None else entered)
        except BaseException as error:
            raised = error.error if isinstance(error, FunctionFault) and error.error is not None else error
            await self._run(lambda: leave(type(raised), raised, raised.__traceback__), may_block=may_block)
            raise
        await self._run(lambda: leave(None, None, None), may_block=may_block)

    async def _answer_all(self, made: Any) -> None:
        function = getattr(made, "ask", None)
        if not callable(function):
            raise FunctionFault(f"`{self._name}` made {type(made).__name__}, which has no `ask`")
        while True:
            self._is_waiting = self._questions.empty()
            question = await self._questions.get()
            self._is_waiting = False
            if question is None:
                return
            try:
                answer = await self._ask(function, question.request)
            except FunctionFault as fault:
                _settle(question.answer, None, fault)
            else:
                _settle(question.answer, answer, None)

    async def _ask(self, function: Callable[..., Any], request: Request) -> Any:
        parameters, new = parameters_of(function), request.new_messages
        known = {"request": request, "messages": plain_messages(new), **dict.fromkeys(_WORDS, words_of(request))}
        named = {name: value for name, value in known.items() if name in parameters}
        may_block = not inspect.iscoroutinefunction(function)
        if named:
            return await self._run(lambda: function(**named), may_block=may_block)
        return await self._run(lambda: function(request), may_block=may_block)

    async def _run(self, function: Callable[[], Any], *, may_block: bool) -> Any:
        """Call the user's code. Raises FunctionFault if it raises anything."""
        try:
            if may_block:
                # One whose thread hangs is left by another, which may free it.
                value = await (_Thread() if self._thread.is_busy else self._thread).call(function)
            else:
                value = function()
            return await value if inspect.isawaitable(value) else value
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the conversation is over
            raise FunctionFault(f"`{self._name}` was cancelled from within") from None
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            where = raised_at(error, self._folders)
            raise FunctionFault(f"`{self._name}` raised {in_words(error)}{where}", error) from error


def _is_async(make: Callable[..., Any]) -> bool:
    """Whether its objects belong to the event loop."""
    if inspect.isclass(make):
        return hasattr(make, "__aenter__") or inspect.iscoroutinefunction(getattr(make, "ask", None))
    return inspect.isasyncgenfunction(inspect.unwrap(make))


def words_of(request: Request) -> str:
    """The new messages as one text. A first turn that contains replies becomes a transcript."""
    new = request.new_messages
    if request.question and not request.new and any(message.role == "assistant" for message in new):
        return request.question
    return "\n\n".join(message.content for message in new if message.role != "system")


def _end_of(task: asyncio.Task[None]) -> FunctionFault | None:
    """The error that ended a conversation's task; None if it ended without an error."""
    error = None if task.cancelled() else task.exception()
    assert error is None or isinstance(error, FunctionFault), error
    return error


def _settle(answer: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
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
        if conversation is None:
            return
        try:
            await conversation.end()
        except FunctionFault as fault:
            raise ProviderError(str(fault), type="python") from fault


class KeepingFunction(PythonProvider):
    """A function that knows conversations by `request.conversation_id` and gets only new messages."""

    keeps_history = True

    async def _call(self, request: Request) -> Any:
        return await super()._call(structs.replace(request, messages=request.new_messages))

    async def end(self, request: Request, *, failed: bool) -> None:
        pass
