// The lists beside the map: jobs, slots, links, events, and one switch in detail.

import { bits, direction, short } from "./model.js";

/** Events that are listed, at most. */
const LISTED = 200;
/** Rows of the table of links, at most. */
const ROWS = 400;

/** An HTML element; text is only ever text. */
function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Replaces the content if it is another one, so that a reader's place and selection stay. */
function replace(body, key, make) {
  if (body.dataset.shown === key) return;
  body.dataset.shown = key;
  body.replaceChildren(...make());
}

const none = (text) => html("p", { class: "none" }, text);

/** A small curve of the last values. */
function curve(values) {
  const [width, height] = [96, 22];
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("class", "curve");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  const most = Math.max(...values, 1e-9);
  const step = width / Math.max(1, values.length - 1);
  line.setAttribute("points", values.map((value, i) => `${(i * step).toFixed(1)},${(height - 1 - (value / most) * (height - 3)).toFixed(1)}`).join(" "));
  svg.append(line);
  return svg;
}

export class Jobs {
  #rows = new Map();

  /** `onChoose` gets a group's key, or null. */
  constructor(section, onChoose) {
    this.body = section.querySelector(".body");
    this.onChoose = onChoose;
    this.open = html("div", { class: "jobs" });
    this.ended = html("details", {}, html("summary"), html("ul"));
    this.empty = none("No job is running. One that joins appears here, in a colour of its own.");
    this.body.append(this.empty, this.open, this.ended);
  }

  /** Groups that are open, with colours and rates; those that ended. */
  show(groups, ended, chosen) {
    this.empty.hidden = groups.length > 0;
    const gone = new Set(this.#rows.keys());
    for (const group of groups) {
      gone.delete(group.key);
      let row = this.#rows.get(group.key);
      if (!row) {
        row = html(
          "button", { type: "button", class: "job", "data-job": group.key },
          html("span", { class: "swatch" }), html("span", { class: "name" }), html("span", { class: "state" }),
          html("span", { class: "facts" }), html("span", { class: "figures" }), html("span", { class: "curve-box" }),
        );
        row.addEventListener("click", () => this.onChoose(row.getAttribute("aria-pressed") === "true" ? null : group.key));
        this.#rows.set(group.key, row);
        this.open.append(row);
      }
      this.#fill(row, group, chosen);
    }
    for (const key of gone) {
      this.#rows.get(key).remove();
      this.#rows.delete(key);
    }
    this.ended.hidden = ended.length === 0;
    const [summary, list] = this.ended.children;
    write(summary, `${ended.length} ended`);
    replace(list, JSON.stringify(ended.map((group) => [group.label, group.state])), () =>
      ended.map((group) => html("li", {}, html("b", {}, group.label), ` ${group.state.replace(/^closed: /, "")}`)));
  }

  #fill(row, group, chosen) {
    const [swatch, name, state, facts, figures, box] = row.children;
    swatch.className = `swatch job-${group.colour}`;
    row.setAttribute("aria-pressed", String(chosen === group.key));
    write(name, group.label);
    write(state, group.fallback ? "a ring of hosts, without a tree" : group.state);
    state.classList.toggle("warn", group.state !== "running" || group.fallback !== "");
    const trees = new Set(group.tree.map((node) => node.tree_id)).size;
    // Of a job that was submitted, and that nobody has joined, nothing is known.
    write(facts, group.world_size === 0 ? "" : [
      `${group.joined_ranks.length} of ${group.world_size} ranks`, group.format, `generation ${group.generation}`,
      ...(trees > 1 ? [`${trees} trees`] : []),
    ].join(" · "));
    const { progress } = group;
    if (!progress) {
      write(figures, group.joined_ranks.length ? "its ranks have told nothing of late" : "");
      box.replaceChildren();
      return;
    }
    const share = progress.transmissions > 0 ? (100 * progress.retransmissions) / progress.transmissions : 0;
    const again = `${short(progress.retransmissions)}\u00a0retransmits\u00a0(${share.toFixed(share > 0 && share < 9.95 ? 2 : 0)}\u00a0%)`;
    write(figures, `${short(group.chunkRate)}\u00a0chunks/s · ${bits(group.sentRate)} up per rank · ${again}`);
    figures.title = `${progress.chunks} chunks finished; ${progress.transmissions} contributions sent, ${progress.retransmissions} of them again`;
    box.replaceChildren(curve(group.history));
    box.className = `curve-box job-${group.colour}`;
  }
}

/** Slots in use of every switch, the parts in the colours of the groups. */
export class Slots {
  constructor(section, onSelect) {
    this.body = section.querySelector(".body");
    this.onSelect = onSelect;
    this.rows = new Map();
  }

  show(switches, shares) {
    const gone = new Set(this.rows.keys());
    for (const one of switches) {
      gone.delete(one.name);
      let row = this.rows.get(one.name);
      if (!row) {
        row = html("button", { type: "button", class: "slots", "data-switch": one.name },
          html("span", { class: "name" }), html("span", { class: "meter" }), html("span", { class: "count" }));
        row.addEventListener("click", () => this.onSelect(one.name));
        this.rows.set(one.name, row);
        this.body.append(row);
      }
      const [name, meter, count] = row.children;
      write(name, one.name);
      name.classList.toggle("bad", one.state !== "ready");
      write(count, one.state === "ready" ? `${one.slots_used} / ${one.slots_total}` : one.state);
      const parts = shares.get(one.name) ?? [];
      replace(meter, JSON.stringify([parts, one.slots_total]), () => parts.map(({ colour, slots, label }) => {
        const part = html("i", { class: colour === null ? "others" : `job-${colour}`, title: `${slots} slots: ${label}` });
        part.style.width = `${(100 * slots) / Math.max(1, one.slots_total)}%`;
        return part;
      }));
    }
    for (const key of gone) {
      this.rows.get(key).remove();
      this.rows.delete(key);
    }
  }
}

/** Cables as a table: what the map shows, to be read. */
export class Links {
  constructor(section) {
    this.body = section.querySelector(".body");
    this.table = html("tbody");
    this.note = none("");
    const head = ["From", "To", "There", "Back"].map((text) => html("th", { scope: "col" }, text));
    this.body.append(html("table", {}, html("thead", {}, html("tr", {}, ...head)), this.table), this.note);
  }

  show(cables, rates) {
    const rows = cables.map((cable) => ({
      cable,
      there: rates.get(direction(cable.a, cable.aPort, cable.b, cable.bPort)) ?? 0,
      back: rates.get(direction(cable.b, cable.bPort, cable.a, cable.aPort)) ?? 0,
    }));
    // The busiest first; the order stays while they are equal.
    rows.sort((one, other) => Math.max(other.there, other.back) - Math.max(one.there, one.back));
    const shown = rows.slice(0, ROWS);
    while (this.table.children.length > shown.length) this.table.lastChild.remove();
    while (this.table.children.length < shown.length) this.table.append(html("tr", {}, ...[0, 1, 2, 3].map(() => html("td"))));
    shown.forEach(({ cable, there, back }, i) => {
      const [from, to, up, down] = this.table.children[i].children;
      write(from, `${cable.a} : ${cable.aPort}`);
      write(to, `${cable.b} : ${cable.bPort}`);
      write(up, bits(there));
      write(down, cable.oneWay ? "one way only" : bits(back));
      down.classList.toggle("bad", cable.oneWay);
    });
    const rest = rows.length - shown.length;
    write(this.note, rows.length === 0 ? "No link between switches." : rest > 0 ? `and ${rest} more` : "What sums put on links, as planned; repeats and other traffic apart.");
  }
}

const TONES = {
  bad: /^(switch_down|link_down|host_lost|rank_lost|join_refused|missed)$/,
  warn: /^(group_stopped|group_waits|standing_by)$/,
  good: /^(group_ready|switch_up|link_up|in_charge)$/,
};

/** What happened, the newest first. */
export class Events {
  constructor(section) {
    this.list = section.querySelector(".body");
    this.seen = new Set();
  }

  /** False if it is known already. */
  add(event) {
    const key = `${event.time_ms}/${event.number}`;
    if (this.seen.has(key)) return false;
    this.seen.add(key);
    const tone = Object.keys(TONES).find((name) => TONES[name].test(event.kind)) ?? "plain";
    const at = new Date(event.time_ms);
    this.list.prepend(html(
      "li", { class: tone, "data-kind": event.kind },
      html("time", { datetime: at.toISOString(), title: at.toLocaleString() }, at.toLocaleTimeString("en-GB")),
      html("span", { class: "kind" }, event.kind.replaceAll("_", " ")), html("span", { class: "words" }, event.message),
    ));
    while (this.list.children.length > LISTED) this.list.lastChild.remove();
    if (this.seen.size > 8 * LISTED) this.seen = new Set([...this.seen].slice(-4 * LISTED));
    return true;
  }

  clear() {
    this.seen.clear();
    this.list.replaceChildren();
  }
}

/** One switch: where it is, what is at its ports, what became of its packets. */
export class Detail {
  constructor(aside, onClose) {
    this.aside = aside;
    this.onClose = onClose;
  }

  hide() {
    this.aside.hidden = true;
    delete this.aside.dataset.shown;
  }

  /** `one`: the switch with its counters. */
  show(one, cables, hosts, groups) {
    this.aside.hidden = false;
    const ports = [];
    for (const cable of cables) {
      if (cable.a === one.name) ports.push([cable.aPort, `${cable.b} : ${cable.bPort}${cable.oneWay ? " (that way only)" : ""}`]);
      if (cable.b === one.name) ports.push([cable.bPort, `${cable.a} : ${cable.aPort}${cable.oneWay ? " (from there only)" : ""}`]);
    }
    for (const host of hosts) if (host.switch_name === one.name) ports.push([host.port, `host ${host.address}`]);
    ports.sort((a, b) => a[0] - b[0]);
    const roles = groups.flatMap((group) => group.tree.filter((node) => node.switch_name === one.name).map((node) =>
      `${group.label}: ${node.parent === "" ? "root" : `below ${node.parent}`}${node.ranks.length > 0 ? `, ranks ${node.ranks.join(" ")}` : ""}`));
    const counted = Object.entries(one.counters).filter(([, count]) => count > 0).sort((a, b) => b[1] - a[1]);
    replace(this.aside, JSON.stringify([one, ports, roles]), () => {
      const close = html("button", { type: "button", class: "close", "aria-label": "Close" }, "×");
      close.addEventListener("click", () => this.onClose());
      const rows = (list) => list.map(([key, value]) => html("tr", {}, html("th", { scope: "row" }, String(key)), html("td", {}, String(value))));
      const part = (title, list) => (list.length > 0 ? [html("h3", {}, title), html("table", {}, html("tbody", {}, ...rows(list)))] : []);
      return [
        close, html("h2", {}, one.name),
        html("p", { class: one.state === "ready" ? "good" : "bad" }, one.state),
        html("table", {}, html("tbody", {}, ...rows([
          ["Device", one.device_id], ["P4Runtime", one.target], ["Service address", one.service_address || "–"],
          ["Slots", `${one.slots_used} of ${one.slots_total}`],
        ]))),
        ...part("Trees", roles.map((text, i) => [i + 1, text])),
        ...part("Ports", ports),
        ...part("Packets by event", counted.map(([event, count]) => [event.replaceAll("_", " "), count.toLocaleString("en")])),
      ];
    });
  }
}
