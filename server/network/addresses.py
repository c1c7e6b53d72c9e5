"""Addresses of clients, as the system has them, as Java prints them and as an Envelope carries them."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Any

#: Host and port first; addresses of IPv6 have two numbers more.
Address = tuple[Any, ...]


def plain_address(text: str) -> str:
    """An IPv4 client of a dual-stack listener shows as ::ffff:a.b.c.d; its address is a.b.c.d."""
    return text.removeprefix("::ffff:") if text.startswith("::ffff:") and "." in text else text


def client_host(ip: str) -> str:
    """Returns an address as Java prints it, without shortening: /127.0.0.1, /0:0:0:0:0:0:0:1."""
    if ":" not in ip:
        return f"/{ip}"
    address, percent, scope = ip.partition("%")
    groups = IPv6Address(address).exploded.split(":")
    return "/" + ":".join(format(int(group, 16), "x") for group in groups) + percent + scope


def decoded_client_host(address: bytes) -> str:
    """Returns the client host of an Envelope's address. Raises ValueError if it has neither 4 nor 16 bytes."""
    return client_host(str(ip_address(address)))


def encoded_client_host(host: str | None) -> bytes:
    """Returns the address of a client host for an Envelope; that of the local host when there is none."""
    return ip_address((host or "").lstrip("/").partition("%")[0] or "127.0.0.1").packed
