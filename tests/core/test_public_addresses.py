"""Which addresses are public: the registries of IANA, row by row, and what lies beside them."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network

import pytest

from perdure.core.public_addresses import is_public

# https://www.iana.org/assignments/iana-ipv4-special-registry: the block, and whether it is globally reachable; None
# where the registry says "N/A".
IPV4_REGISTRY: dict[str, bool | None] = {
    "0.0.0.0/8": False, "0.0.0.0/32": False, "10.0.0.0/8": False, "100.64.0.0/10": False, "127.0.0.0/8": False,
    "169.254.0.0/16": False, "172.16.0.0/12": False, "192.0.0.0/24": False, "192.0.0.0/29": False,
    "192.0.0.8/32": False, "192.0.0.9/32": True, "192.0.0.10/32": True, "192.0.0.170/32": False,
    "192.0.0.171/32": False, "192.0.2.0/24": False, "192.31.196.0/24": True, "192.52.193.0/24": True,
    "192.88.99.0/24": None, "192.168.0.0/16": False, "192.175.48.0/24": True, "198.18.0.0/15": False,
    "198.51.100.0/24": False, "203.0.113.0/24": False, "240.0.0.0/4": False, "255.255.255.255/32": False,
}  # fmt: skip
# https://www.iana.org/assignments/iana-ipv6-special-registry
IPV6_REGISTRY: dict[str, bool | None] = {
    "::1/128": False, "::/128": False, "::ffff:0:0/96": False, "64:ff9b::/96": True, "64:ff9b:1::/48": False,
    "100::/64": False, "100:0:0:1::/64": False, "2001::/23": False, "2001::/32": None, "2001:1::1/128": True,
    "2001:1::2/128": True, "2001:1::3/128": True, "2001:2::/48": False, "2001:3::/32": True,
    "2001:4:112::/48": True, "2001:10::/28": None, "2001:20::/28": True, "2001:30::/28": True,
    "2001:db8::/32": False, "2002::/16": None, "2620:4f:8000::/48": True, "3fff::/20": False, "5f00::/16": False,
    "fc00::/7": False, "fe80::/10": False,
}  # fmt: skip
# In registries of their own, or deprecated: none of them is a host of the Internet.
OTHERS = [
    "224.0.0.0/4", "239.255.255.250/32", "168.63.129.16/32", "ff00::/8", "ff0e::/16", "fec0::/10", "::/96",
    "::ffff:0:0:0/96", "4000::/3", "8000::/1", "1000::/4", "::/8",
]  # fmt: skip
# Global by the registry, but only as the IPv4 addresses that are in them: see below.
WRAPPING = ("::ffff:0:0/96", "64:ff9b::/96")
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.215.14", "100.63.255.255", "100.128.0.0",
    "126.255.255.255", "128.0.0.0", "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0",
    "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0",
    "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255",
    "2001:200::1", "2001:4860:4860::8888", "2001:db7:ffff::1", "2001:db9::", "2003::1", "2400:cb00::1",
    "2606:2800:21f::1", "2606:4700:4700::1111", "2620:4f:7fff::1", "2620:4f:8001::1", "2a00:1450::1", "3ffe::1",
    "3fff:1000::", "::ffff:93.184.215.14", "64:ff9b::93.184.215.14", "64:ff9b::101:101",
]  # fmt: skip


def ends(network: IPv4Network | IPv6Network) -> tuple[str, str, str]:
    return str(network[0]), str(network[network.num_addresses // 2]), str(network[-1])


@pytest.mark.parametrize("block", [*IPV4_REGISTRY, *(each for each in IPV6_REGISTRY if each not in WRAPPING), *OTHERS])
def test_no_address_of_a_special_block_is_public(block: str) -> None:
    """Also where the registry calls it reachable: that is anycast of a protocol, never somebody's receiver."""
    assert not any(map(is_public, ends(ip_network(block))))


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_beside_the_blocks_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("block", [*IPV4_REGISTRY, "224.0.0.0/4", "168.63.129.16/32"])
@pytest.mark.parametrize("prefix", ["::ffff:", "64:ff9b::", "64:ff9b:1::", "::", "::ffff:0:", "2001::"])
def test_a_private_address_inside_of_another_is_private(prefix: str, block: str) -> None:
    assert not any(is_public(prefix + inner) for inner in ends(ip_network(block)))


@pytest.mark.parametrize(
    "address",
    ["2002:7f00:1::", "2002:a00:1::", "2002:5db8:d70e::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "::5db8:d70e",
     "::ffff:0:93.184.215.14", "64:ff9b:1::93.184.215.14"],
)  # fmt: skip
def test_tunnels_and_translations_of_local_networks_are_private_whatever_is_in_them(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "text",
    ["", "x", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "010.8.8.8", "8.8.8.8 ", "8.8.8.8/32", "8.8.8.8%1",
     "fe80::1%eth0", "2606:4700:4700::1111%eth0", "[2606:4700:4700::1111]", "8.8.8", "1.1.1.1\n", "\uff11.1.1.1"],
)  # fmt: skip
def test_what_is_no_plain_address_is_not_public(text: str) -> None:
    assert not is_public(text)
