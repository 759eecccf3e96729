"""Closing a connection of a client that floods."""

import os
import socket

import pytest

from serl.exchange.connections import close_connection


def test_what_a_closed_connection_has_sent_is_not_read() -> None:
    """libzmq read all of it, megabytes of subscriptions, which filled memory: within two minutes one client made an exchange of 370 MB one of 1 GB."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        with client, accepted:
            client.sendall(bytes(100_000))
            accepted.recv(1)  # it has arrived
            close_connection(accepted.fileno(), port)
            with pytest.raises(OSError):
                accepted.recv(100_000)
            with pytest.raises(ConnectionResetError):
                client.recv(1)
            assert os.fstat(accepted.fileno()), "the descriptor stays with its owner"


def test_a_descriptor_of_another_port_is_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with client, accepted:
            client.sendall(b"kept")
            close_connection(accepted.fileno(), server.getsockname()[1] + 1)
            assert accepted.recv(4) == b"kept"
