"""Which IP addresses the public Internet routes, by a table of our own: Python's differs from release to release."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

# Everything in IANA's IPv4 special-purpose registry, also what it calls globally reachable (AS112, anycast of
# protocols): no receiver is there. Multicast and reserved addresses are in registries of their own.
_IPV4_SPECIAL = (
    "0.0.0.0/8",  # this host on this network
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # shared by carriers
    "127.0.0.0/8",  # loopback
    "168.63.129.16/32",  # not in the registry: Azure's host, from inside of every machine there
    "169.254.0.0/16",  # link-local, and the metadata of clouds
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments
    "192.0.2.0/24",  # documentation
    "192.31.196.0/24",  # AS112
    "192.52.193.0/24",  # AMT
    "192.88.99.0/24",  # 6to4 relays
    "192.168.0.0/16",  # private
    "192.175.48.0/24",  # AS112
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and broadcast
)
# All that IANA has given to global unicast. Outside of it are loopback, IPv4-compatible and translated addresses, local
# NAT64 (64:ff9b:1::/48), segment routing (5f00::/16), unique local, link-local, site-local and multicast addresses.
_IPV6_GLOBAL_UNICAST = "2000::/3"
_IPV6_SPECIAL = (
    "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID …
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4, which has an IPv4 address in it
    "2620:4f:8000::/48",  # AS112
    "3fff::/20",  # documentation
)
_IPV4_MAPPED = "::ffff:0:0/96"
_NAT64 = "64:ff9b::/96"  # the well-known prefix: how a network without IPv4 reaches everything that has only that


def is_public(address: str) -> bool:
    """Whether the public Internet routes an IP address: not this machine, its network, or what a gateway maps to them.

    An IPv6 address that stands for an IPv4 address (`::ffff:a.b.c.d`, `64:ff9b::a.b.c.d`) is as public as that one. A
    text that is no address is not public, and neither is an address with a zone.
    """
    import ipaddress

    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if "%" in address:
        return False
    if isinstance(found, ipaddress.IPv6Address) and _is_in(found, _IPV4_MAPPED, _NAT64):
        found = ipaddress.IPv4Address(found.packed[12:])
    if isinstance(found, ipaddress.IPv6Address):
        return _is_in(found, _IPV6_GLOBAL_UNICAST) and not _is_in(found, *_IPV6_SPECIAL)
    return not _is_in(found, *_IPV4_SPECIAL)


def _is_in(address: IPv4Address | IPv6Address, *networks: str) -> bool:
    return any(address in _network(each) for each in networks)


@cache
def _network(text: str) -> IPv4Network | IPv6Network:
    import ipaddress

    return ipaddress.ip_network(text)
