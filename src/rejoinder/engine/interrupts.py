"""Signals during a run.

The first Ctrl-C finishes what is under way. A second one, SIGTERM and a closed terminal (SIGHUP) stop the run at once:
the current task is cancelled, and what was started on this machine is ended.

Signals do not go through the event loop. Python's C handler writes each one to a socket, and a thread reads it there,
so a signal is noticed while the loop is busy with a long comparison or a slow function. When a run that has to stop
does not stop in time, that thread ends the process. The journal loses nothing by it: each record is durable before its
conversation goes on, and what waits is written first.

A thread needs Python's lock, so C code that holds it must be short. Every check that calls such code bounds its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, ClassVar

from rejoinder.engine.loops import caller_loop

EXIT_CODE = 130
TICK_S = 0.1
MOST_TICKS = 15
"""How long the event loop may take to stop. Ticks and not seconds: on a busy machine both threads are slow."""
MOST_CPU_S = 2.0
"""CPU time until the end of the process, results and report included. Waiting for a slow reader does not count."""
SAVING_S = 0.4
_AT_ONCE = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupts:
    """While entered: calls `finish` on the first Ctrl-C, and cancels the current task when the run has to stop. Without
    `finish`, for work that only reads, the first Ctrl-C stops it.

    `save` is called in another thread when the process is about to be ended. Outside the main thread nothing is
    installed: a program that runs suites in other threads handles signals itself, or passes them on (`passed_on`).
    A program that awaits a verb stops it by cancelling its own task, and its process is never ended.
    """

    in_threads: ClassVar[list[Interrupts]] = []
    missed: ClassVar[int] = 0
    """Signals that were to be passed on while no run in a thread was ready for them."""

    def __init__(self, finish: Callable[[], None] | None, save: Callable[[], object]) -> None:
        self._finish = finish
        self._save = save
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._deadline: Deadline | None = None
        self._opened = contextlib.ExitStack()
        self.count = 0

    def __enter__(self) -> Interrupts:
        caller = caller_loop()
        if caller is not None:
            self._opened.enter_context(caller.stops(self._stop))
        elif threading.current_thread() is threading.main_thread():
            self._opened.callback(_Signals(self._receive).close)
        else:
            Interrupts.in_threads.append(self)
            self._opened.callback(Interrupts.in_threads.remove, self)
            for _ in range(Interrupts.missed):
                self._receive(signal.SIGINT)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
        if self._deadline is not None:
            self._deadline.loop_ended.set()

    def _receive(self, number: int) -> None:
        """In the thread that reads signals."""
        may_finish = number == signal.SIGINT and self.count == 0 and self._finish is not None
        if not may_finish and self._deadline is None:
            self._deadline = Deadline(self._save)
        self._stop(at_once=number != signal.SIGINT)

    def _stop(self, *, at_once: bool = False) -> None:
        """Finish what is in progress if this is the first request; stop at once if it is not."""
        self.count += 1
        if self._finish is not None and self.count == 1 and not at_once:
            self._call(self._finish)
        elif self._task is not None:
            self._call(self._task.cancel)

    def _call(self, function: Callable[[], Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function)


@contextlib.contextmanager
def passed_on() -> Generator[None]:
    """While the main thread waits for runs in other threads: its Ctrl-C is theirs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def receive(number: int, _: object) -> None:
        Interrupts.missed += not Interrupts.in_threads
        for interrupts in list(Interrupts.in_threads):
            interrupts._receive(number)  # pyright: ignore[reportPrivateUsage]

    Interrupts.missed = 0
    before = signal.signal(signal.SIGINT, receive)
    try:
        yield
    finally:
        Interrupts.missed = 0
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


class Deadline:
    """Ends the process when the run does not stop in time, or when the rest takes too much CPU time."""

    current: Deadline | None = None

    def __init__(self, save: Callable[[], object]) -> None:
        self._save = save
        self.loop_ended = threading.Event()
        self._called_off = threading.Event()
        Deadline.current = self
        threading.Thread(target=self._watch, name="rejoinder-deadline", daemon=True).start()

    @staticmethod
    def call_off() -> None:
        """For programs that go on after an interrupted run."""
        if Deadline.current is not None:
            Deadline.current._called_off.set()

    def _watch(self) -> None:
        used = time.process_time()
        for tick in itertools.count(1):
            if self._called_off.wait(TICK_S):
                return
            is_late = tick >= MOST_TICKS and not self.loop_ended.is_set()
            if is_late or time.process_time() - used > MOST_CPU_S:
                self._end_process()

    def _end_process(self) -> None:
        saving = threading.Thread(target=self._save, name="rejoinder-saving", daemon=True)
        saving.start()
        saving.join(SAVING_S)
        os._exit(EXIT_CODE)


class _Signals:
    """Hands each signal to a function, in a thread of its own. Until it is closed."""

    current: _Signals | None = None

    def __init__(self, receive: Callable[[int], None]) -> None:
        self._receive = receive
        self._inbox, self._outbox = socket.socketpair()
        self._outbox.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._outbox.fileno(), warn_on_full_buffer=False)
        # `nohup` has SIGHUP ignored, and that is to stay so.
        numbers = [number for number in _AT_ONCE if signal.getsignal(number) is not signal.SIG_IGN]
        self._handlers = {number: signal.signal(number, _leave_it) for number in (signal.SIGINT, *numbers)}
        _Signals.current = self
        threading.Thread(target=self._read, name="rejoinder-signals", daemon=True).start()

    def close(self) -> None:
        _Signals.current = None
        for number, handler in self._handlers.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        signal.set_wakeup_fd(self._wakeup)
        self._outbox.shutdown(socket.SHUT_RDWR)
        self._outbox.close()

    def forget(self) -> None:
        """In a forked child: its signals are its own."""
        signal.set_wakeup_fd(-1)
        for number in self._handlers:
            signal.signal(number, signal.SIG_DFL)

    def _read(self) -> None:
        with self._inbox:
            while numbers := self._inbox.recv(64):
                for number in numbers:
                    if number in self._handlers:
                        self._receive(number)


def _leave_it(*_: object) -> None:
    """The thread that reads signals has it already."""


def _forget_in_child() -> None:
    if _Signals.current is not None:
        _Signals.current.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
