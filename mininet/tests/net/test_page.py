"""The page that the controller serves, in a headless Chromium: what it shows is what the controller says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from itertools import combinations, count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from conftest import Start

from inca_net import topology
from inca_net.browser import Browser, find_browser
from inca_net.emulation import CONTROLLER_PORT, Emulation
from inca_net.jobs import agent_command
from inca_net.nodes import find_binary

STEADY = str(Path(__file__).with_name("steady.py"))
HOST = f"127.0.0.1:{CONTROLLER_PORT}"
PAGE = f"http://{HOST}/"
# A picture for the README is left behind here.
PICTURES = Path(__file__).resolve().parents[3] / "target" / "reports"


@pytest.fixture
def browser() -> Iterator[Browser]:
    if find_browser() is None:
        pytest.skip("chromium not found")
    with Browser() as browser:
        yield browser


def api(path: str, method: str = "GET", token: str = "") -> Any:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(PAGE + path, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


def start_job(emulation: Emulation, name: str) -> None:
    """A job that sums until the emulation ends."""
    pipe = agent_command("pipe", name, ["--dtype", "i32", "--deadline", "30"], json=False)
    stop = str(emulation.run_dir / "never")
    emulation.start_workers(lambda _worker: [sys.executable, STEADY, stop, *pipe], name)
    emulation.wait_status(
        lambda status: any(job["name"] == name and job["state"] == "running" for job in status["jobs"]), 20
    )


def is_quiet(browser: Browser) -> None:
    """Nothing was complained of, and nobody else was asked."""
    assert browser.complaints == []
    assert browser.requests
    assert {urlsplit(address).netloc for address in browser.requests if not address.startswith("data:")} == {HOST}


def test_page_shows_network_trees_slots_and_events(start: Start, browser: Browser) -> None:
    network = topology.tree2("page", [2, 2], 2)
    emulation = start(network, switch="embedded", inventory={"trees": {"slots_per_tree": 64}})
    start_job(emulation, "training")
    browser.open(PAGE)
    status = api("v1/status")

    # The network.
    browser.until("document.querySelectorAll('#map .trees line').length > 0")
    names = "[...document.querySelectorAll('#map .switches > g')].map((node) => node.dataset.switch).sort()"
    assert browser.evaluate(names) == sorted(switch["name"] for switch in status["switches"])
    hosts, cables = len(status["hosts"]), len(status["links"]) // 2
    assert browser.evaluate("document.querySelectorAll('#map .hosts circle').length") == hosts == 4
    assert browser.evaluate("document.querySelectorAll('#map .cables line').length") == hosts + cables == 8
    assert (
        browser.evaluate("document.getElementById('summary').textContent") == "4 switches · 4 links · 4 hosts · 1 job"
    )

    # The tree, in the colour of its job: root to both leaves, and the four hosts.
    tree = next(job["tree"] for job in status["jobs"])
    colours = browser.evaluate(
        "[...document.querySelectorAll('#map .trees line[data-job=training]')]"
        ".map((line) => getComputedStyle(line).stroke)"
    )
    swatch = browser.evaluate("getComputedStyle(document.querySelector('#jobs .swatch')).backgroundColor")
    assert colours == [swatch] * (len(tree) - 1 + 4)
    assert swatch not in ("rgba(0, 0, 0, 0)", "rgb(0, 0, 0)")
    ranks = "[...document.querySelectorAll('#map .hosts .rank text')].map((text) => text.textContent).sort()"
    assert browser.evaluate(ranks) == ["0", "1", "2", "3"]

    # Slots, chunks, rates, events.
    rows = (
        "[...document.querySelectorAll('#switches .slots')]"
        ".map((row) => [row.dataset.switch, row.querySelector('.count').textContent])"
    )
    expected = {switch["name"]: f"{switch['slots_used']} / {switch['slots_total']}" for switch in status["switches"]}
    assert dict(browser.evaluate(rows)) == expected
    assert sorted(expected.values()) == ["0 / 4096", *["64 / 4096"] * 3]
    assert browser.evaluate("document.querySelectorAll('#switches .meter i').length") == len(tree) == 3
    browser.until(r"/^[1-9].*\schunks.s/.test(document.querySelector('#jobs .figures').textContent)")
    assert "retransmits" in browser.evaluate("document.querySelector('#jobs .figures').textContent")
    busy = (
        "[...document.querySelectorAll('#links tbody tr')]"
        ".filter((row) => /[1-9].*bit/.test(row.cells[2].textContent)).length"
    )
    browser.until(f"{busy} === 2")
    browser.until("document.querySelectorAll('#map .rates text').length === 2")
    assert browser.evaluate("document.querySelectorAll('#events [data-kind=group_ready]').length") == 1
    browser.screenshot(PICTURES / "page.png")

    # Keys go from switch to switch, and show one.
    browser.evaluate("document.querySelector('#map [tabindex=\"0\"]').focus()")
    for key in ("ArrowUp", "ArrowDown", "ArrowRight"):
        browser.key(key)
    focused = browser.evaluate("document.activeElement.dataset.switch")
    browser.key("Enter")
    assert browser.until("document.querySelector('#detail h2')?.textContent") == focused
    browser.until("document.getElementById('detail').textContent.includes('Packets by event')")
    browser.key("Escape")
    browser.until("document.getElementById('detail').hidden")

    # Live: a cable that no tree uses goes.
    assert browser.evaluate("document.querySelectorAll('#links tbody tr').length") == 4
    emulation.cut_link("spine2", "leaf1", True)
    browser.until("document.querySelector('#events [data-kind=link_down]') !== null")
    browser.until("document.querySelectorAll('#map .cables line').length === 7")
    browser.until("document.querySelectorAll('#links tbody tr').length === 3")

    # By the stream of events and without a reload: the job ends.
    api("v1/jobs/training?reason=enough", "DELETE")
    browser.until("document.querySelector('#events [data-kind=group_closed] .words')?.textContent.includes('enough')")
    browser.until("document.querySelectorAll('#map .trees line').length === 0")
    browser.until("document.querySelector('#jobs summary').textContent === '1 ended'")
    browser.until("document.querySelectorAll('#switches .meter i').length === 0")
    is_quiet(browser)


def test_page_says_what_is_wrong_and_is_dark_if_wanted(start: Start, browser: Browser) -> None:
    emulation = start(topology.single("page", [1]), switch="embedded")
    has_a_policy()
    browser.prefer("light")
    browser.open(PAGE)
    browser.until("document.querySelector('#health .words').textContent === 'in charge'")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = browser.evaluate(ground)
    browser.prefer("dark")
    dark = browser.evaluate(ground)
    assert sum(brightness(light)) > 600
    assert sum(brightness(dark)) < 150
    browser.evaluate("document.getElementById('theme').click()")
    assert browser.evaluate(ground) == light
    emulation.switches[0].kill()
    browser.until("document.querySelectorAll('#map .switches .away').length === 1")
    browser.until("document.querySelector('#events [data-kind=switch_down]') !== null")
    browser.until("document.querySelector('#health').textContent.includes('1 switch not ready')")
    is_quiet(browser)
    assert emulation.controller is not None
    emulation.controller.process.kill()
    emulation.controller.process.wait()
    emulation.controller = None
    browser.until("document.querySelector('#health').textContent.includes('does not answer')")
    assert browser.evaluate("document.querySelectorAll('#map .switches > g').length") == 1
    # The browser's own words alone.
    assert all("net::ERR_" in complaint for complaint in browser.complaints), browser.complaints


def brightness(colour: str) -> list[int]:
    return [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]


def test_page_asks_for_a_token_and_forgets_it(start: Start, browser: Browser, tmp_path: Path) -> None:
    made = subprocess.run(
        [find_binary("inca"), "token", "--name", "viewer", "--role", "read"], capture_output=True, text=True, check=True
    )
    token = made.stdout.strip()
    tokens = tmp_path / "tokens.yaml"
    tokens.write_text(f"tokens:\n  {made.stderr.strip()}\n")
    environment = {**os.environ}
    os.environ["INCA_TOKEN"] = token
    try:
        start(topology.single("page", [1]), switch="embedded", inventory={"security": {"tokens": str(tokens)}})
    finally:
        os.environ.clear()
        os.environ.update(environment)
    browser.open(PAGE)
    browser.until("document.getElementById('door').open")
    assert browser.evaluate("document.querySelectorAll('#map .switches > g').length") == 0

    def enter(text: str) -> None:
        browser.evaluate(f"document.getElementById('token').value = {json.dumps(text)}; 0")
        browser.evaluate("document.querySelector('#door button').click()")

    enter("guessed")
    browser.until("document.getElementById('door').open && document.getElementById('door-reason').textContent !== ''")
    enter(token)
    browser.until("document.querySelectorAll('#map .switches > g').length === 1")
    browser.until("document.querySelector('#events [data-kind=switch_up]') !== null")
    assert browser.evaluate("Object.values(sessionStorage)") == [token]
    assert token not in browser.evaluate("document.documentElement.outerHTML + JSON.stringify(localStorage)")
    # What a browser says of a refusal is the one thing it complains of.
    assert all("401" in complaint for complaint in browser.complaints), browser.complaints
    browser.evaluate("document.getElementById('sign-out').click()")
    browser.until("document.getElementById('door')?.open")
    assert browser.evaluate("sessionStorage.length") == 0


def has_a_policy() -> None:
    """All of the page is allowed what is needed, and asks nobody else."""
    with urllib.request.urlopen(PAGE, timeout=10) as answer:
        policy, text = answer.headers["content-security-policy"], answer.read().decode()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "://" not in text
    for part in ("style.css", "main.js", "api.js", "model.js", "layout.js", "map.js", "panels.js", "icon.svg"):
        with urllib.request.urlopen(f"{PAGE}ui/{part}", timeout=10) as answer:
            assert "content-security-policy" in answer.headers
            text = answer.read().decode().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text, part
        assert "https:" not in text, part


def test_page_is_readable_with_200_switches(start: Start, browser: Browser) -> None:
    start(topology.single("page", [1]), switch="embedded")
    browser.answer({f"{PAGE}v1/status": json.dumps(fat_tree())})
    began = time.monotonic()
    browser.open(PAGE)
    browser.until("document.querySelectorAll('#map .switches > g').length === 200")
    assert time.monotonic() - began < 15
    boxes = browser.evaluate(
        "[...document.querySelectorAll('#map .chip')].map((chip) => { const box = chip.getBoundingClientRect();"
        " return [box.left, box.top, box.right, box.bottom] })"
    )
    assert len(boxes) == 200
    for one, other in combinations(boxes, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)
    frame = browser.evaluate(
        "(({ left, top, right, bottom }) => [left, top, right, bottom])"
        "(document.getElementById('network').getBoundingClientRect())"
    )
    assert all(box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3] for box in boxes)
    height = browser.evaluate("document.querySelector('#map .switches .name').getBoundingClientRect().height")
    assert height > 7, "names are too small to be read"
    # A look at an unchanged network costs little.
    spent = browser.evaluate(
        "new Promise((resolve) => { const start = performance.now(); document.getElementById('zoom-fit').click();"
        " requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start))) })"
    )
    assert spent < 1000
    browser.screenshot(PICTURES / "page-200.png")
    is_quiet(browser)


def fat_tree() -> dict[str, Any]:
    """A status with 12 pods of 12 switches and 56 core switches: 200; 4 hosts at each edge."""
    pods, half, cores = 12, 6, 56
    names = [f"{tier}{pod}-{i}" for tier in ("edge", "agg") for pod in range(pods) for i in range(half)]
    names += [f"core{i}" for i in range(cores)]
    ports = {name: count(1) for name in names}
    links, hosts = [], []
    for pod in range(pods):
        pairs = [(f"edge{pod}-{edge}", f"agg{pod}-{agg}") for edge in range(half) for agg in range(half)]
        pairs += [(f"agg{pod}-{core % half}", f"core{core}") for core in range(cores)]
        for a, b in pairs:
            a_port, b_port = next(ports[a]), next(ports[b])
            links += [
                {"from_switch": a, "from_port": a_port, "to_switch": b, "to_port": b_port},
                {"from_switch": b, "from_port": b_port, "to_switch": a, "to_port": a_port},
            ]
    for number in range(pods * half * 4):
        leaf = names[number // 4]
        address = f"10.0.{number // 250}.{number % 250 + 1}"
        hosts.append({"address": address, "mac": "02:00:00:00:00:01", "switch_name": leaf, "port": next(ports[leaf])})
    switches = [
        {
            "name": name, "device_id": i + 1, "target": f"127.0.0.1:{20000 + i}", "state": "ready", "ports": [],
            "counters": {}, "service_address": "", "slots_used": 16 * (i % 40), "slots_total": 4096,
        }
        for i, name in enumerate(names)
    ]  # fmt: skip
    return {
        "controller_version": "0.1.0", "time_ms": 0, "in_charge": True,
        "switches": switches, "links": links, "hosts": hosts, "jobs": [],
    }  # fmt: skip
