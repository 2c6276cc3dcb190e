"""A connection: both ends know the key, no packet is too long, and hanging up is heard at once."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import Pipe

import pytest

from engine.host.line import Gone, Line, Silent, dial, greet
from engine.host.wire import LONGEST

posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes take whole packets of any size there")
KEY, OTHER = b"k" * 32, b"o" * 32


def greeted(host_key: bytes, client_key: bytes) -> tuple[Future[Line], Future[Line]]:
    here, there = Pipe()
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(greet, here, host_key, True, 30), pool.submit(greet, there, client_key, False, 30)


@pytest.fixture
def line() -> tuple[Line, Line]:
    host, client = greeted(KEY, KEY)
    return host.result(), client.result()


def test_packets_arrive_in_order_whole_and_both_ways(line):
    for sender, receiver in (line, line[::-1]):
        packets = [b"one", b"", b"x" * 100_000]
        with ThreadPoolExecutor(1) as pool:
            received = pool.submit(lambda receiver=receiver: [receiver.receive() for _ in range(3)])
            for packet in packets:
                sender.send(packet)
            assert received.result(30) == packets


@pytest.mark.parametrize("keys", [(KEY, OTHER), (OTHER, KEY)])
def test_with_another_key_neither_end_talks(keys):
    for end in greeted(*keys):
        with pytest.raises(Gone):
            end.result()


@pytest.mark.parametrize("first", [True, False])
def test_who_says_nothing_is_not_waited_for(first):
    here, there = Pipe()
    with pytest.raises(Silent):
        greet(here, KEY, first, seconds=0.05)
    there.close()


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("said", [b"", b"hello", b"#CHALLENGE#", b"x" * 1000])
def test_who_says_something_else_is_turned_away(first, said):
    here, there = Pipe()
    there.send_bytes(said)
    with pytest.raises(Gone):
        greet(here, KEY, first, seconds=0.5)
    there.close()


@posix
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("begun", [b"\0", b"\0\0\0\x34#CHALL"], ids=["half a length", "half a packet"])
def test_who_breaks_off_in_the_middle_is_not_waited_for(first, begun):
    here, there = Pipe()
    os.write(there.fileno(), begun)
    with pytest.raises(Silent):
        greet(here, KEY, first, seconds=0.05)
    there.close()


def test_a_packet_that_is_too_long_ends_the_connection(line):
    host, client = line
    threading.Thread(target=hanging(lambda: client.send(b"x" * (LONGEST + 1)))).start()
    with pytest.raises(Gone):
        host.receive()
    host.close()


def hanging(send: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        with contextlib.suppress(Gone):
            send()

    return run


@pytest.mark.parametrize("who", [0, 1])
def test_whoever_hangs_up_both_hear_it(line, who):
    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(end.receive) for end in line]
        line[who].hang_up()
        line[who].hang_up()
        for end in ends:
            with pytest.raises(Gone):
                end.result(30)
    for end in line:
        end.close()
        with pytest.raises(Gone):
            end.send(b"too late")


@posix
def test_hanging_up_frees_who_sends_to_one_that_does_not_read(line):
    host, _ = line
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(lambda: [host.send(b"x" * 100_000) for _ in range(1000)])
        while not sending.running():
            pass
        host.hang_up()
        with pytest.raises(Gone):
            sending.result(30)
    host.close()


def test_where_nobody_is_there_is_no_line(tmp_path):
    address = r"\\.\pipe\draftline-nobody" if sys.platform == "win32" else str(tmp_path / "socket")
    with pytest.raises(Gone):
        dial(address, KEY)


@pytest.mark.skipif(sys.platform != "linux", reason="others refuse where Linux waits")
def test_one_who_lets_nobody_in_any_more_is_not_waited_for(tmp_path):
    address = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as hung, contextlib.ExitStack() as waiting:
        hung.bind(address)
        hung.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                one = waiting.enter_context(socket.socket(socket.AF_UNIX))
                one.setblocking(False)
                one.connect(address)
        with pytest.raises(Silent):
            dial(address, KEY)
