"""The dashboard and the alerts ask for metrics that a live controller has, and its logs are for programs if wanted."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml
from conftest import Start

from inca_net import topology
from inca_net.emulation import CONTROLLER_PORT
from inca_net.jobs import agent_command
from inca_net.nodes import ROOT

STEADY = str(Path(__file__).with_name("steady.py"))
MONITORING = ROOT / "monitoring"
METRIC = re.compile(r"\b(inca_[a-z0-9_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"\{\{(?:\s*\$labels\.)?\s*(\w+)\s*\}\}")
GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")


def scrape() -> tuple[dict[str, set[str]], str]:
    """Labels of every metric that is exported now, by its name as Prometheus stores it; the page."""
    with urllib.request.urlopen(f"http://127.0.0.1:{CONTROLLER_PORT}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found: dict[str, set[str]] = defaultdict(set)
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, labels = line.partition(" ")[0].partition("{")
            found[name] |= set(re.findall(r'(\w+)="', labels))
    return found, text


def expressions() -> list[tuple[str, str]]:
    """Every expression of the dashboard and of the alerts, with the text that names its labels."""
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    found = [
        (target["expr"], target["legendFormat"]) for panel in dashboard["panels"] for target in panel.get("targets", [])
    ]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()  # type: ignore[union-attr]
            found.append((metric, "{{" + label + "}}"))
    alerts = yaml.safe_load((MONITORING / "alerts.yml").read_text())
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    return found + [(rule["expr"], rule["annotations"]["summary"]) for rule in rules]


def test_dashboard_and_alerts_ask_for_what_is_exported(start: Start) -> None:
    emulation = start(topology.single("watched", [2]), switch="embedded", controller_args=("--log-format", "json"))
    pipe = agent_command("pipe", "training", ["--dtype", "i32", "--deadline", "30"], json=False)
    stop = emulation.run_dir / "never"
    emulation.start_workers(lambda _worker: [sys.executable, STEADY, str(stop), *pipe], "training")
    emulation.wait_status(lambda status: any(job["state"] == "running" for job in status["jobs"]), 20)
    emulation.wait_status(lambda status: 'inca_group_chunks_total{name="training"' in scrape()[1], 20)
    # A switch that goes and comes back has failed calls to be counted.
    switch = emulation.switches[0]
    switch.kill()
    emulation.wait_status(lambda _status: "inca_p4runtime_request_errors_total{" in scrape()[1], 20)
    exported, page = scrape()
    asked = expressions()
    assert len(asked) > 30
    assert {"inca_p4runtime_request_errors_total", "inca_switch_slots_used", "inca_groups"} <= set(exported)
    switch.launch()
    switch.wait_ready()
    emulation.wait_status(lambda status: status["switches"][0]["state"] == "ready", 20)
    for name, labels in scrape()[0].items():
        exported[name] |= labels
    for expression, text in asked:
        metrics = METRIC.findall(expression)
        assert metrics, expression
        labels: set[str] = set()
        for name, matchers in metrics:
            assert name in exported, f"{expression}: {name} is not exported:\n{page}"
            labels |= exported[name]
            assert set(re.findall(r"(\w+)=?[=~]", matchers)) <= exported[name], expression
        grouped = {
            label.strip() for group in GROUPING.findall(expression) for label in group.split(",") if label.strip()
        }
        assert grouped <= labels, expression
        assert set(LABEL.findall(text)) <= labels, (expression, text)
    spans_of_logs(emulation.run_dir / "controller.log")


def spans_of_logs(log: Path) -> None:
    """Each line is an object, and what was installed for a job says for which one."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert all({"timestamp", "level", "fields"} <= set(line) for line in lines)
    installs = [line["spans"] for line in lines if any(span["name"] == "install" for span in line.get("spans", []))]
    assert installs
    for spans in installs:
        names = {span["name"]: span for span in spans}
        assert "training" in str(names["group"]), spans
        assert names["install"]["switches"] == 1


def test_dashboard_is_whole() -> None:
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy)
        for panel in panels
        for dx in range(panel["gridPos"]["w"])
        for dy in range(panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells), "panels overlap"
    assert max(x for x, _ in cells) < 24
    for panel in panels:
        assert panel["title"]
        assert panel["type"] == "row" or (panel["targets"] and panel["fieldConfig"]["defaults"]["unit"])
        assert len({target["refId"] for target in panel.get("targets", [])}) == len(panel.get("targets", []))
    # Whatever data source it is imported for.
    assert {panel["datasource"]["uid"] for panel in panels if "datasource" in panel} == {"${datasource}"}
    scrapes = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    assert scrapes["rule_files"] == ["alerts.yml"]
    assert scrapes["scrape_configs"][0]["static_configs"][0]["targets"] == ["127.0.0.1:50051"]
