// The network as a picture: cables, trees over them in the colours of their jobs, switches with their slots, hosts.

import { bits, byName, direction } from "./model.js";
import { place, sizes } from "./layout.js";

const SVG = "http://www.w3.org/2000/svg";
/** Links whose rates are written beside them, at most; all are in the table. */
const LABELLED = 48;
/** Links of trees on which traffic is seen moving, at most: it costs the browser something. */
const MOVING = 160;
/** Hosts of a switch that are drawn. */
const DRAWN_HOSTS = 32;

function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Sets what has changed: a picture that stays the same is not drawn again. */
function update(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (node.getAttribute(key) !== String(value)) node.setAttribute(key, value);
  }
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Children by key: made, kept and removed as the items come and go. */
class Layer {
  #made = new Map();

  constructor(parent, className, make) {
    this.group = element("g", { class: className });
    parent.append(this.group);
    this.make = make;
  }

  draw(items, each) {
    const gone = new Set(this.#made.keys());
    for (const item of items) {
      let node = this.#made.get(item.key);
      if (!node) {
        node = this.make(item);
        this.#made.set(item.key, node);
        this.group.append(node);
      }
      gone.delete(item.key);
      each(node, item);
    }
    for (const key of gone) {
      this.#made.get(key).remove();
      this.#made.delete(key);
    }
  }

  get(key) {
    return this.#made.get(key);
  }
}

export class NetworkMap {
  #svg;
  #view = { x: 0, y: 0, width: 100, height: 100 };
  #fitted = true;
  #at = new Map();
  #hostAt = new Map();
  #signature = "";
  #current = null;

  /** `onSelect` gets a switch's name, or null. */
  constructor(svg, onSelect) {
    this.#svg = svg;
    this.onSelect = onSelect;
    const line = () => element("line", {}, element("title"));
    this.cables = new Layer(svg, "cables", line);
    this.trees = new Layer(svg, "trees", line);
    this.moving = new Layer(svg, "moving", () => element("line"));
    this.hosts = new Layer(svg, "hosts", () => element("g", {}, element("circle"), element("text"), element("title")));
    this.switches = new Layer(svg, "switches", (item) => this.#makeSwitch(item));
    this.rates = new Layer(svg, "rates", () => element("text"));
    svg.addEventListener("keydown", (event) => this.#key(event));
    svg.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    svg.addEventListener("pointerdown", (event) => this.#drag(event));
    new ResizeObserver(() => { this.#signature = ""; this.draw(); }).observe(svg.parentElement);
  }

  /** What is drawn: the status, cables, groups with colours and plans, rates by direction. */
  show(scene) {
    this.scene = scene;
    this.draw();
  }

  draw() {
    if (!this.scene) return;
    this.#settle();
    this.#drawLinks();
    this.#drawHosts();
    this.#drawSwitches();
  }

  /** Finds places anew if the network is another one. */
  #settle() {
    const { status, cables } = this.scene;
    const box = this.#svg.getBoundingClientRect();
    const aspect = Math.max(0.3, box.width / Math.max(1, box.height));
    const known = new Set(status.switches.map((one) => one.name));
    const hosts = new Map();
    for (const host of status.hosts) {
      if (!hosts.has(host.switch_name)) hosts.set(host.switch_name, []);
      hosts.get(host.switch_name).push(host);
    }
    const signature = JSON.stringify([
      [...known], cables.map((cable) => cable.key), status.hosts.map((host) => [host.address, host.switch_name]), aspect.toFixed(1),
    ]);
    if (signature === this.#signature) return;
    this.#signature = signature;
    const most = Math.max(0, ...[...hosts.values()].map((list) => list.length));
    this.size = sizes(known.size, most);
    this.#svg.classList.toggle("compact", this.size.compact);
    const pairs = cables.filter((cable) => known.has(cable.a) && known.has(cable.b)).map((cable) => [cable.a, cable.b]);
    this.#at = place(known, pairs, new Set(hosts.keys()), this.size, aspect);
    this.#hostAt = new Map();
    for (const [name, list] of hosts) {
      const centre = this.#at.get(name);
      if (!centre) continue;
      list.sort((a, b) => a.port - b.port || byName(a.address, b.address));
      const { perRow, host, chip } = this.size;
      list.slice(0, DRAWN_HOSTS).forEach((one, i) => {
        const row = Math.floor(i / perRow);
        const inRow = Math.min(perRow, list.length - row * perRow);
        this.#hostAt.set(one.address, {
          x: centre.x + ((i % perRow) - (inRow - 1) / 2) * host.step,
          y: centre.y + chip.height / 2 + host.drop + row * host.step,
        });
      });
    }
    this.hostCount = new Map([...hosts].map(([name, list]) => [name, list.length]));
    if (this.#fitted) this.fit();
  }

  /** Shows all of it. */
  fit() {
    const points = [...this.#at.values(), ...this.#hostAt.values()];
    if (points.length === 0) return;
    const { chip, compact } = this.size;
    const margin = { x: chip.width / 2 + 18, y: chip.height / 2 + (compact ? 10 : 26) };
    const left = Math.min(...points.map((point) => point.x)) - margin.x;
    const right = Math.max(...points.map((point) => point.x)) + margin.x;
    const top = Math.min(...points.map((point) => point.y)) - margin.y;
    const bottom = Math.max(...points.map((point) => point.y)) + margin.y;
    // A small network is not blown up.
    const box = this.#svg.getBoundingClientRect();
    const [width, height] = [Math.max(right - left, box.width / 1.3), Math.max(bottom - top, box.height / 1.3)];
    this.#view = { x: (left + right - width) / 2, y: (top + bottom - height) / 2, width, height };
    this.#fitted = true;
    this.#applyView();
  }

  /** Zooms by a factor about the middle, or about a point of the picture. */
  zoom(factor, about) {
    const view = this.#view;
    const point = about ?? { x: view.x + view.width / 2, y: view.y + view.height / 2 };
    this.#view = {
      x: point.x - (point.x - view.x) / factor, y: point.y - (point.y - view.y) / factor,
      width: view.width / factor, height: view.height / factor,
    };
    this.#fitted = false;
    this.#applyView();
  }

  #applyView() {
    const { x, y, width, height } = this.#view;
    this.#svg.setAttribute("viewBox", [x, y, width, height].map((value) => value.toFixed(1)).join(" "));
  }

  #point(event) {
    const matrix = this.#svg.getScreenCTM();
    return matrix ? new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse()) : undefined;
  }

  #end(name) {
    return this.#at.get(name) ?? this.#hostAt.get(name);
  }

  /** Ends of a line, moved aside by `lane`. */
  #line(a, b, lane) {
    const [from, to] = [this.#end(a), this.#end(b)];
    if (!from || !to) return null;
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    // Always the same side, whichever end comes first.
    const side = byName(a, b) < 0 ? 1 : -1;
    const [nx, ny] = [(-(to.y - from.y) / length) * lane * side, ((to.x - from.x) / length) * lane * side];
    return { x1: from.x + nx, y1: from.y + ny, x2: to.x + nx, y2: to.y + ny };
  }

  #drawLinks() {
    const { cables, groups, rates, chosen } = this.scene;
    // Cables between the same two lie side by side.
    const parallel = new Map();
    for (const cable of cables) {
      const pair = [cable.a, cable.b].sort().join("\0");
      if (!parallel.has(pair)) parallel.set(pair, []);
      parallel.get(pair).push(cable);
    }
    const lanes = new Map();
    for (const list of parallel.values()) list.forEach((cable, i) => lanes.set(cable.key, (i - (list.length - 1) / 2) * 9));
    const both = (cable) => ({
      out: rates.get(direction(cable.a, cable.aPort, cable.b, cable.bPort)) ?? 0,
      back: rates.get(direction(cable.b, cable.bPort, cable.a, cable.aPort)) ?? 0,
    });
    const base = cables.map((cable) => ({ ...cable, line: this.#line(cable.a, cable.b, lanes.get(cable.key)) }));
    for (const { address, switch_name: at } of this.size.compact ? [] : this.scene.status.hosts) {
      base.push({ key: address, isHost: true, line: this.#line(address, at, 0) });
    }
    const drawn = base.filter((cable) => cable.line);
    this.cables.draw(drawn, (node, cable) => {
      update(node, { ...cable.line, class: cable.oneWay ? "one-way" : "" });
      if (!cable.isHost) {
        const { out, back } = both(cable);
        const text = cable.oneWay
          ? `${cable.a} port ${cable.aPort} to ${cable.b} port ${cable.bPort}: works one way only`
          : `${cable.a} port ${cable.aPort} and ${cable.b} port ${cable.bPort}: ${bits(out)} there, ${bits(back)} back`;
        write(node.firstChild, text);
      }
    });
    this.#drawTrees(cables, lanes, groups, rates, chosen);
    const busy = cables.map((cable) => ({ cable, ...both(cable) })).filter(({ out, back }) => out + back > 0);
    const labelled = this.size.compact || busy.length > LABELLED ? [] : busy;
    const placed = [];
    const chips = [...this.#at.values()];
    this.rates.draw(labelled.map((one) => ({ key: one.cable.key, ...one })), (node, { cable, out, back }) => {
      const line = this.#line(cable.a, cable.b, lanes.get(cable.key));
      if (!line) return;
      // Nearer to the lower end, where lines of a mesh are apart; elsewhere if another one is there.
      const along = (share) => {
        const part = line.y1 > line.y2 ? share : 1 - share;
        return { x: line.x1 + (line.x2 - line.x1) * part, y: line.y1 + (line.y2 - line.y1) * part };
      };
      const { width, height } = this.size.chip;
      const free = ({ x, y }) =>
        placed.every((other) => Math.abs(other.x - x) > 66 || Math.abs(other.y - y) > 14)
        && !chips.some((chip) => Math.abs(chip.x - x) < width / 2 + 30 && Math.abs(chip.y - y) < height / 2 + 7);
      const at = [0.32, 0.42, 0.52, 0.62, 0.25].map(along).find(free);
      if (at) {
        placed.push(at);
        update(node, { x: at.x.toFixed(1), y: at.y.toFixed(1) });
      }
      // Where there is no room for it, it is in the table.
      write(node, at ? bits(Math.max(out, back)) : "");
    });
  }

  #drawTrees(cables, lanes, groups, rates, chosen) {
    const lane = new Map(cables.flatMap((cable) => [
      [`${cable.a}:${cable.aPort}`, lanes.get(cable.key)], [`${cable.b}:${cable.bPort}`, lanes.get(cable.key)],
    ]));
    // Each group's links, once whatever the direction, and who else is on them.
    const users = new Map();
    for (const group of groups) {
      for (const load of group.plan?.links ?? []) {
        const ends = [`${load.from}:${load.from_port}`, `${load.to}:${load.to_port}`].sort();
        const key = ends.join("\0");
        if (!users.has(key)) users.set(key, new Map());
        const up = users.get(key).get(group.key) ?? { group, load, bits: 0 };
        up.bits += rates.get(direction(load.from, load.from_port, load.to, load.to_port)) ?? 0;
        users.get(key).set(group.key, up);
      }
    }
    const items = [];
    for (const [key, list] of users) {
      [...list.values()].forEach(({ group, load, bits: rate }, i) => {
        const isHost = load.from_port === 0 || load.to_port === 0;
        if (isHost && this.size.compact) return;
        const aside = (lane.get(`${load.from}:${load.from_port}`) ?? lane.get(`${load.to}:${load.to_port}`) ?? 0) + (i - (list.size - 1) / 2) * 5;
        const line = this.#line(load.from, load.to, aside);
        if (line) items.push({ key: `${group.key}\0${key}`, group, line, rate, isHost, ends: [load.from, load.to] });
      });
    }
    const most = Math.max(1, ...items.map((item) => item.rate));
    const faded = (group) => (chosen && chosen !== group.key ? " faded" : "");
    this.trees.draw(items, (node, { group, line, rate, isHost, ends }) => {
      const thin = this.size.compact ? 0.6 : 1;
      const width = thin * ((isHost ? 1.6 : 2.4) + 2.6 * Math.sqrt(rate / most));
      update(node, { ...line, class: `job-${group.colour}${faded(group)}`, "stroke-width": width.toFixed(1), "data-job": group.key });
      write(node.firstChild, `${group.label}: ${ends[0]} and ${ends[1]}`);
    });
    const busy = items.filter((item) => item.rate > 0);
    this.moving.draw(busy.length > MOVING ? [] : busy, (node, { group, line }) => {
      update(node, { ...line, class: `job-${group.colour}${faded(group)}` });
    });
  }

  #drawHosts() {
    const { status, groups, chosen } = this.scene;
    const ranks = new Map();
    for (const group of groups) {
      for (const [address, rank] of group.hosts ?? []) {
        if (!ranks.has(address)) ranks.set(address, []);
        ranks.get(address).push({ group, rank });
      }
    }
    const items = status.hosts.filter((host) => this.#hostAt.has(host.address)).map((host) => ({ key: host.address, host }));
    this.hosts.draw(items, (node, { host }) => {
      const [circle, text, title] = node.children;
      const { x, y } = this.#hostAt.get(host.address);
      const mine = ranks.get(host.address) ?? [];
      const first = mine.find(({ group }) => group.key === chosen) ?? mine[0];
      update(node, { class: first ? `rank job-${first.group.colour}${chosen && first.group.key !== chosen ? " faded" : ""}` : "" });
      update(circle, { cx: x, cy: y, r: this.size.host.radius });
      update(text, { x, y });
      write(text, first && !this.size.compact ? String(first.rank) : "");
      const roles = mine.map(({ group, rank }) => `rank ${rank} of ${group.label}`).join(", ");
      write(title, `${host.address} (${host.mac}) at ${host.switch_name} port ${host.port}${roles ? `: ${roles}` : ""}`);
    });
  }

  #makeSwitch({ key }) {
    const node = element(
      "g", { role: "button", tabindex: -1, "data-switch": key },
      element("rect", { class: "chip", rx: 6 }), element("text", { class: "name" }),
      element("rect", { class: "meter", rx: 2 }), element("g", { class: "used" }), element("text", { class: "more" }), element("title"),
    );
    node.addEventListener("click", () => this.select(key));
    node.addEventListener("focus", () => this.#reach(key));
    return node;
  }

  #drawSwitches() {
    const { status, shares, selected } = this.scene;
    const { chip, compact } = this.size;
    if (!this.#at.has(this.#current)) this.#current = [...this.#at.keys()][0] ?? null;
    this.switches.draw(status.switches.map((one) => ({ key: one.name, one })), (node, { one }) => {
      const at = this.#at.get(one.name);
      if (!at) return;
      const [box, name, meter, used, more, title] = node.children;
      const ready = one.state === "ready";
      const words = `${one.name}, ${one.state}, ${one.slots_used} of ${one.slots_total} slots in use`;
      update(node, {
        class: `${ready ? "" : "away"}${selected === one.name ? " selected" : ""}`, "aria-label": words,
        tabindex: one.name === this.#current ? 0 : -1, transform: `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})`,
      });
      const [left, top] = [-chip.width / 2, -chip.height / 2];
      update(box, { x: left, y: top, width: chip.width, height: chip.height });
      update(name, { y: compact ? -2 : -4, "font-size": compact ? 11 : 13 });
      write(name, clipped(one.name, compact ? 9 : 12));
      const bar = { x: left + 8, y: chip.height / 2 - (compact ? 6 : 11), width: chip.width - 16, height: compact ? 3 : 5 };
      update(meter, bar);
      this.#drawMeter(used, bar, shares.get(one.name) ?? [], one.slots_total);
      const hidden = (this.hostCount?.get(one.name) ?? 0) - DRAWN_HOSTS;
      update(more, { y: chip.height / 2 + this.size.host.drop / 2 });
      write(more, hidden > 0 ? `+${hidden}` : "");
      write(title, words);
    });
  }

  /** Slots in use as a bar, a part for each group. */
  #drawMeter(node, bar, parts, total) {
    while (node.children.length > parts.length) node.lastChild.remove();
    while (node.children.length < parts.length) node.append(element("rect"));
    let x = bar.x;
    parts.forEach(({ colour, slots }, i) => {
      // What is there is seen.
      const width = Math.min(Math.max(2, (slots / Math.max(1, total)) * bar.width), bar.x + bar.width - x);
      update(node.children[i], { class: colour === null ? "others" : `job-${colour}`, x, y: bar.y, width: Math.max(0, width), height: bar.height });
      x += Math.max(0, width);
    });
  }

  select(name) {
    this.#reach(name);
    this.onSelect(name);
  }

  /** The switch that the keyboard is at: the one tab stop of the map. */
  #reach(name) {
    if (name === this.#current) return;
    this.switches.get(this.#current)?.setAttribute("tabindex", -1);
    this.#current = name;
    this.switches.get(name)?.setAttribute("tabindex", 0);
  }

  #key(event) {
    const towards = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (towards) {
      const next = this.#neighbour(towards);
      if (next) {
        this.#reach(next);
        this.switches.get(next).focus();
      }
    } else if (event.key === "Enter" || event.key === " ") this.select(this.#current);
    else if (event.key === "Escape") this.onSelect(null);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }

  /** The nearest switch that way; what is straight ahead counts as nearer. */
  #neighbour([dx, dy]) {
    const from = this.#at.get(this.#current);
    let best = null;
    for (const [name, { x, y }] of this.#at) {
      const ahead = (x - from.x) * dx + (y - from.y) * dy;
      const aside = Math.abs((x - from.x) * dy) + Math.abs((y - from.y) * dx);
      if (ahead > 1 && (!best || ahead + 2 * aside < best.far)) best = { name, far: ahead + 2 * aside };
    }
    return best?.name;
  }

  #wheel(event) {
    // The page scrolls as ever; with Ctrl, as by pinching, the map zooms.
    if (!event.ctrlKey) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY / 300), this.#point(event));
  }

  #drag(event) {
    if (event.button !== 0 || event.target.closest("[data-switch]")) return;
    const from = this.#point(event);
    const move = (later) => {
      const to = this.#point(later);
      this.#view.x += from.x - to.x;
      this.#view.y += from.y - to.y;
      this.#fitted = false;
      this.#applyView();
    };
    const end = () => this.#svg.removeEventListener("pointermove", move);
    this.#svg.setPointerCapture(event.pointerId);
    this.#svg.addEventListener("pointermove", move);
    this.#svg.addEventListener("pointerup", end, { once: true });
    this.#svg.addEventListener("pointercancel", end, { once: true });
  }
}

function clipped(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
