"""Which hosts a reward may speak to. Users write the address of a judge, so it must not lead into our own network.

Without a setting every public address is allowed and every private one (loopback, link-local with the metadata service
of clouds, internal networks) refused. ``TUNEYARD_JUDGE_HOSTS`` is the operator's list instead: hosts, ``host:port`` or
``*.domain``, private ones included; ``*`` in it adds every public address.

A name is looked up once, each of its addresses is checked, and the connection goes to that very address: a name that
changes its mind in between (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass

SETTING = "TUNEYARD_JUDGE_HOSTS"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class HostRefused(Exception):
    """The host may not be spoken to, or has no address; the text says which and what to do."""


@dataclass(frozen=True, slots=True)
class Egress:
    """``hosts``: the operator's list, or None where there is none."""

    hosts: tuple[str, ...] | None = None

    @classmethod
    def from_environment(cls) -> Egress:
        setting = os.environ.get(SETTING)
        if setting is None:
            return cls()
        return cls(tuple(item.strip().casefold() for item in setting.split(",") if item.strip()))

    def address(self, host: str, port: int) -> str:
        """The address to connect to. Raises :class:`HostRefused`."""
        host = host.casefold().rstrip(".")
        listed = self._listed(host, port)
        if self.hosts is not None and not listed and "*" not in self.hosts:
            raise HostRefused(f"{host}:{port} is not among the hosts that this installation allows ({SETTING})")
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise HostRefused(f"{host} has no address ({error})") from error
        addresses = [str(entry[4][0]) for entry in found]
        if not addresses:
            raise HostRefused(f"{host} has no address")
        private = next((address for address in addresses if not is_public(address)), None)
        if private is not None and not listed:
            raise HostRefused(
                f"{host} leads to {private}, an address of a private network; an operator can allow it by {SETTING}"
            )
        return addresses[0]

    def _listed(self, host: str, port: int) -> bool:
        return any(_matches(item, host, port) for item in self.hosts or ())


def _matches(item: str, host: str, port: int) -> bool:
    name, _, number = item.rpartition(":") if item.count(":") == 1 or item.startswith("[") else (item, "", "")
    if number and number.isdigit() and int(number) != port:
        return False
    name = name.strip("[]")
    return host.endswith(name[1:]) if name.startswith("*.") else name == host


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the open internet, also as IPv4 inside of IPv6."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = _embedded(ip)
        if inner is not None:
            ip = inner
    return ip.is_global and not ip.is_multicast


def _embedded(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
