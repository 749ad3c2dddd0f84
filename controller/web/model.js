// What is drawn, made of what the controller says: cables, rates, and who has which colour.

export const COLOURS = 8;

export const jobName = (group) => (group.group ? `${group.name} / ${group.group}` : group.name);
export const isOpen = (group) => !group.state.startsWith("closed");
export const byName = (a, b) => a.localeCompare(b, "en", { numeric: true });

const end = (node, port) => `${node}:${port}`;
/** One direction of a link. */
export const direction = (from, fromPort, to, toPort) => `${end(from, fromPort)}>${end(to, toPort)}`;

/** Cables between switches, each once; `oneWay` if the other direction brings nothing. */
export function cables(links) {
  const there = new Set(links.map((link) => direction(link.from_switch, link.from_port, link.to_switch, link.to_port)));
  const found = [];
  for (const link of links) {
    const back = there.has(direction(link.to_switch, link.to_port, link.from_switch, link.from_port));
    const first = byName(end(link.from_switch, link.from_port), end(link.to_switch, link.to_port)) < 0;
    if (back && !first) continue;
    found.push({
      key: direction(link.from_switch, link.from_port, link.to_switch, link.to_port),
      a: link.from_switch, aPort: link.from_port, b: link.to_switch, bPort: link.to_port, oneWay: !back,
    });
  }
  return found;
}

/** Colours of groups: the same one after a reload, different ones while there are enough. */
export class Palette {
  #taken = new Map();

  of(name) {
    const known = this.#taken.get(name);
    if (known !== undefined) return known;
    let hash = 0;
    for (const char of name) hash = (hash * 31 + char.codePointAt(0)) >>> 0;
    const used = new Set(this.#taken.values());
    let colour = hash % COLOURS;
    for (let i = 0; i < COLOURS && used.has(colour); i += 1) colour = (colour + 1) % COLOURS;
    this.#taken.set(name, colour);
    return colour;
  }

  /** Gives back the colours of groups that have gone. */
  keep(names) {
    for (const name of [...this.#taken.keys()]) if (!names.has(name)) this.#taken.delete(name);
  }
}

/** Growth per second of counters that are told now and then, and what it was of late. */
export class Rates {
  #last = new Map();
  static HISTORY = 60;

  /** A count at a time in milliseconds. Counters that begin anew are not taken for a fall. */
  tell(key, count, time) {
    const last = this.#last.get(key);
    if (last === undefined) {
      this.#last.set(key, { count, time, rate: 0, history: [] });
    } else if (count !== last.count || time - last.time > 5000) {
      // Ranks tell every other second: a count that stays for a while is not a rate of 0.
      const rate = Math.max(0, count - last.count) / Math.max(0.001, (time - last.time) / 1000);
      Object.assign(last, { count, time, rate });
    }
    const now = this.#last.get(key);
    now.history.push(now.rate);
    if (now.history.length > Rates.HISTORY) now.history.shift();
  }

  rate(key) {
    return this.#last.get(key)?.rate ?? 0;
  }

  history(key) {
    return this.#last.get(key)?.history ?? [];
  }

  keep(names) {
    for (const key of [...this.#last.keys()]) if (!names.has(key.split("\0")[0])) this.#last.delete(key);
  }
}

/** Key of one counter of a group. */
export const counter = (name, what) => `${name}\0${what}`;

/**
 * Bits per second by direction, over all groups: what a chunk puts there, as planned, times the chunks that are finished a
 * second. Repetitions and ordinary traffic are not in it.
 */
export function linkRates(plans, rates) {
  const sums = new Map();
  for (const [name, plan] of plans) {
    const chunks = rates.rate(counter(name, "chunks"));
    for (const load of plan.links) {
      const key = direction(load.from, load.from_port, load.to, load.to_port);
      sums.set(key, (sums.get(key) ?? 0) + (load.bytes * 8 * chunks) / Math.max(1, plan.chunks));
    }
  }
  return sums;
}

const PREFIXES = ["", "k", "M", "G", "T", "P"];

/** 12.3 M and the like. */
export function short(value) {
  let step = 0;
  while (value >= 999.5 && step < PREFIXES.length - 1) {
    value /= 1000;
    step += 1;
  }
  const digits = value >= 99.5 || value === Math.round(value) ? 0 : value >= 9.95 ? 1 : 2;
  return step > 0 ? `${value.toFixed(digits)}\u00a0${PREFIXES[step]}` : value.toFixed(digits);
}

/** 12.3 Mbit/s and the like. */
export function bits(value) {
  const text = short(value);
  return /[a-zA-Z]$/.test(text) ? `${text}bit/s` : `${text}\u00a0bit/s`;
}
