"""The network of a cluster: a bridge, and for the control plane and each node a network namespace with one link to it.

Pods of different nodes reach each other by routes, as on a cloud's own network; nothing is translated on the way, and nothing
leaves the machine: the bridge has no way out.
"""

from __future__ import annotations

from tests.kube.command import run
from tests.kube.places import NODES, Place

CONTROL = "control"


def create(place: Place) -> None:
    run("ip", "link", "add", place.name, "type", "bridge")
    run("ip", "addr", "add", f"{place.gateway}/24", "dev", place.name)
    run("ip", "link", "set", place.name, "up")
    _attach(place, CONTROL, place.control)
    for node in NODES:
        _attach(place, node, place.address(node))
    for node in NODES:
        way = [place.pods(node), "via", place.address(node)]
        run("ip", "route", "replace", *way)
        for other in (CONTROL, *NODES):
            if other != node:
                run("ip", "-n", place.namespace(other), "route", "add", *way)


def _attach(place: Place, member: str, address: str) -> None:
    name = place.namespace(member)
    run("ip", "netns", "add", name)
    run("ip", "link", "add", _link(place, member), "type", "veth", "peer", "name", "eth0", "netns", name)
    run("ip", "link", "set", _link(place, member), "master", place.name, "up")
    inside = ["ip", "-n", name]
    run(*inside, "addr", "add", f"{address}/24", "dev", "eth0")
    run(*inside, "link", "set", "eth0", "up")
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "route", "add", "default", "via", place.gateway)
    run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.ip_forward=1")


def set_link(place: Place, node: str, up: bool) -> None:
    """Pull or plug the cable of a node: with it down, packets vanish and no connection is refused."""
    run("ip", "link", "set", _link(place, node), "up" if up else "down")


def remove(place: Place) -> None:
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        if name.startswith(f"{place.name}-"):
            run("ip", "netns", "del", name)
    for line in run("ip", "-o", "link", "show").splitlines():
        name = line.split(":")[1].strip().split("@")[0]
        if name == place.name or name.startswith(f"{place.name}-"):
            run("ip", "link", "del", name, check=False)


def left(place: Place) -> list[str]:
    names = [*run("ip", "netns", "list").splitlines(), *run("ip", "-o", "link", "show").splitlines()]
    return [line.strip() for line in names if f"{place.name}-" in line or f" {place.name}:" in line]


def _link(place: Place, member: str) -> str:
    """At most 15 characters, as the kernel wants."""
    return place.namespace(member)
