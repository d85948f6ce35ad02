"""Explains in a sentence why a site is not in the federation: Flower only says so in a log, among much else."""

import socket
from dataclasses import dataclass
from pathlib import Path

from understudy.printable import printable

TURNED_AWAY = ("code: 2004", "401 Unauthorized")  # how Flower reports a key that it rejects


@dataclass(frozen=True)
class ServerAddress:
    """What a site must know about the server."""

    address: str  # host:port
    ca: Path | None  # None: no TLS, with --insecure
    key: Path | None

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")


def silence(server: ServerAddress) -> str | None:
    """Why nothing answers at the address; None if something does."""
    try:
        with socket.create_connection((server.host, int(server.address.rpartition(":")[2])), timeout=3):
            return None
    except UnicodeError:
        return f"Nothing answers at {server.address} (not a valid host name); trying again."
    except OSError as error:
        return f"Nothing answers at {server.address} ({error.strerror or 'no reply within 3 s'}); trying again."


def reason(server: ServerAddress, said: str) -> str:
    """Why Flower's node ended, according to its log."""
    if "mismatch" in said and "CERTIFICATE_VERIFY_FAILED" in said:
        return (
            f"The server's certificate is not valid for {server.host}: dial a name that is in it, or ask the "
            f"operator for one made with --host {server.host}."
        )
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return f"The server at {server.address} does not match {server.ca}; ask its operator for the right ca.crt."
    if any(words in said for words in TURNED_AWAY) and server.key is not None:
        return (
            f"The server at {server.address} turned {server.key.name} away: either its operator has not yet admitted "
            f"{server.key}.pub and restarted the server, or an earlier process of this site still counts as connected, "
            "which passes within a minute, or the clocks differ: this machine's may be at most 5 s ahead of the "
            "server's, and 5 min behind it."
        )
    return f"Flower's SuperNode ended; it said: {_last_words(said)}"


def _last_words(said: str) -> str:
    """The last line that is not routine."""
    lines = [line.strip() for line in said.splitlines()]
    told = [line for line in lines if line and not line.startswith(("INFO:", "For more information"))]
    return printable(told[-1]) if told else "nothing."
