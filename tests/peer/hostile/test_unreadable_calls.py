"""Calls that the library itself cannot read, and refusals that quote what came from outside."""

from __future__ import annotations

import asyncio
import logging
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

from peer.network_of_peers import TestPeer, network, published, settings_of

from coterie.peer.refusals import Reason, Refused

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS = 1, 4
ENDS_STREAM, ENDS_HEADERS = 1, 4
QUOTES = ("plain", "a\r\nb", "\x00\x1b[31m\x7f", "ü 漢字 \u202e", "\ud800", "%41%", "x" * 30_000)


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    start = len(content).to_bytes(3, "big") + bytes([kind, flags])
    return start + stream.to_bytes(4, "big") + content


def header(name: bytes, value: bytes) -> bytes:
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


async def call(caller: TestPeer, address: str, path: bytes) -> None:
    """Call by a path of any bytes, over the connection that a trusted key opens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    folder = caller.context.trust.folder.parent
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    context.set_alpn_protocols(["h2"])
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    fields = {
        b":method": b"POST",
        b":scheme": b"https",
        b":path": path,
        b":authority": b"coterie",
        b"te": b"trailers",
        b"content-type": b"application/grpc",
    }
    block = b"".join(header(*each) for each in fields.items())
    writer.write(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0))
    writer.write(frame(HEADERS, ENDS_STREAM | ENDS_HEADERS, 1, block))
    await writer.drain()
    await reader.read(1)  # the server has seen something of it
    writer.close()


def test_a_call_whose_name_is_no_text_does_not_end_the_server(tmp_path):
    async def scenario() -> None:
        async with network(tmp_path, 3) as (victim, friend, foe):
            await victim.service.publish(published())
            for count in (1, 2):
                await call(foe, victim.address, b"/coterie.peer.v1.Peer/\xff")
                async with asyncio.timeout(30):
                    while victim.context.refused.of("stranger") != {Reason.MALFORMED: count}:
                        await asyncio.sleep(0.01)
                await friend.client.fetch(victim.id)

    asyncio.run(scenario())


def main() -> None:
    """Refuse with texts that quote anything; what is printed is what the library prints."""

    async def scenario(folder: Path) -> None:
        async with network(folder, 2, settings=settings_of()) as (victim, asker):
            for text in QUOTES:

                async def refuse(*_: object, text: str = text) -> None:
                    raise Refused(Reason.NOT_WANTED, text)

                victim.service.wait_for_phase = refuse  # type: ignore[assignment, method-assign]
                try:
                    await asker.client.await_phase(victim.id, 0, 0)  # type: ignore[arg-type]
                except Refused as refused:
                    print(refused.reason.value, ascii(refused.detail))

    logging.getLogger("coterie").addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(scenario(Path(folder)))


def test_a_refusal_that_quotes_anything_is_read_and_nothing_is_printed(monkeypatch):
    monkeypatch.setenv("GRPC_VERBOSITY", "ERROR")  # unless somebody sets it, it is quiet
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    code = "from peer.hostile.test_unreadable_calls import main; main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    told = [line.split(" ", 1) for line in ended.stdout.splitlines()]
    assert [reason for reason, _ in told] == ["not-wanted"] * len(QUOTES)
    texts = [text.strip("'") for _, text in told]
    assert texts[:3] == ["plain", "a  b", "  [31m "]
    assert texts[3:] == ["\\xfc \\u6f22\\u5b57  ", " ", "%41%", "x" * 200]
