// Where switches and hosts are drawn. The same network gives the same picture.
//
// A network of tiers (leaves and spines, fat trees) is drawn in rows, hosts below; every other one (rings, tori, dragonflies) by the
// distances between its switches.

import { byName } from "./model.js";

/** Above so many switches they are drawn small. */
const COMPACT = 40;
/** Cables within or across tiers that a network of tiers may have, as a share. */
const STRAY = 0.2;
/** Rounds of stress majorisation. */
const ROUNDS = 120;
const SWEEPS = 8;

/** Sizes, in units of the picture. */
export function sizes(switches, mostHosts) {
  const compact = switches > COMPACT;
  const chip = compact ? { width: 62, height: 22 } : { width: 92, height: 38 };
  const perRow = compact ? 8 : Math.min(Math.max(mostHosts, 1), 8);
  const host = compact ? { radius: 2.6, step: 7, drop: 9 } : { radius: 9, step: 26, drop: 44 };
  const rows = Math.ceil(Math.min(mostHosts, 32) / perRow);
  return {
    compact, chip, host, perRow,
    cell: {
      width: Math.max(chip.width + (compact ? 14 : 34), perRow * host.step + 12),
      height: chip.height + (rows > 0 ? host.drop + (rows - 1) * host.step + host.radius : 0) + (compact ? 26 : 46),
    },
    gap: compact ? 50 : 90,
  };
}

/**
 * Positions of the centres of switches, by name.
 *
 * @param names switches
 * @param pairs neighbours as pairs of names
 * @param leaves set of the switches that hosts are attached to
 * @param size of `sizes`
 * @param aspect width by height of the space there is
 */
export function place(names, pairs, leaves, size, aspect) {
  const sorted = [...names].sort(byName);
  const near = new Map(sorted.map((name) => [name, new Set()]));
  for (const [a, b] of pairs) {
    near.get(a)?.add(b);
    near.get(b)?.add(a);
  }
  const tier = tiers(sorted, near, leaves);
  return tier ? inRows(sorted, near, tier, size, aspect) : byDistance(sorted, near, size, aspect);
}

/** Hops to the nearest leaf; null if that does not make tiers. */
function tiers(names, near, leaves) {
  const tier = new Map();
  let front = names.filter((name) => leaves.has(name));
  for (let level = 0; front.length > 0; level += 1) {
    for (const name of front) tier.set(name, level);
    const next = new Set(front.flatMap((name) => [...near.get(name)]));
    front = [...next].filter((name) => !tier.has(name));
  }
  let stray = 0;
  let all = 0;
  for (const [a, others] of near) {
    for (const b of others) {
      all += 1;
      if (tier.has(a) && Math.abs(tier.get(a) - tier.get(b)) !== 1) stray += 1;
    }
  }
  const levels = new Set(tier.values()).size;
  if (all > 0 && (levels < 2 || stray > STRAY * all)) return null;
  // Those without any way to a leaf are drawn apart, on top.
  for (const name of names) if (!tier.has(name)) tier.set(name, levels);
  return tier;
}

function inRows(names, near, tier, size, aspect) {
  const rows = [];
  for (const name of names) (rows[tier.get(name)] ??= []).push(name);
  // Where rows are broken, the order of the names keeps together what belongs together.
  const order = size.compact ? rows.filter(Boolean) : untangled(rows.filter(Boolean), near);
  // As many columns as make it largest.
  const widest = Math.max(...order.map((row) => row.length));
  const height = (columns) =>
    order.reduce((sum, row) => sum + Math.ceil(row.length / columns) * size.cell.height, (order.length - 1) * size.gap);
  const scale = (columns) => Math.min(aspect / (columns * size.cell.width), 1 / height(columns));
  let columns = widest;
  for (let fewer = widest; fewer >= 1; fewer -= 1) if (scale(fewer) > scale(columns) * 1.001) columns = fewer;
  const at = new Map();
  let y = 0;
  for (const row of [...order].reverse()) {
    const lines = Math.ceil(row.length / columns);
    const each = Math.ceil(row.length / lines);
    for (let line = 0; line < lines; line += 1) {
      const part = row.slice(line * each, (line + 1) * each);
      // Half a cell aside, so that cables to the next row pass between.
      const shift = lines > 1 && line % 2 === 1 ? 0.5 : 0;
      const spread = Math.min(2.4, columns / part.length);
      part.forEach((name, i) => {
        at.set(name, { x: ((i - (part.length - 1) / 2) * (lines > 1 ? 1 : spread) + shift) * size.cell.width, y });
      });
      y += size.cell.height;
    }
    y += size.gap;
  }
  return at;
}

/** Rows in an order with few crossings: each switch goes to the mean of its neighbours. */
function untangled(rows, near) {
  const place = new Map();
  const note = (row) => row.forEach((name, i) => place.set(name, (i + 0.5) / row.length));
  rows.forEach(note);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const up = sweep % 2 === 0;
    for (let step = 1; step < rows.length; step += 1) {
      const index = up ? step : rows.length - 1 - step;
      const fixed = new Set(rows[up ? index - 1 : index + 1]);
      const mean = new Map(rows[index].map((name) => {
        const there = [...near.get(name)].filter((other) => fixed.has(other));
        const sum = there.reduce((total, other) => total + place.get(other), 0);
        return [name, there.length > 0 ? sum / there.length : place.get(name)];
      }));
      rows[index].sort((a, b) => (Math.abs(mean.get(a) - mean.get(b)) < 1e-9 ? byName(a, b) : mean.get(a) - mean.get(b)));
      note(rows[index]);
    }
  }
  return rows;
}

/** Stress majorisation (Gansner, Koren, North 2004): drawn distances as near as can be to distances in hops. */
function byDistance(names, near, size, aspect) {
  const count = names.length;
  const index = new Map(names.map((name, i) => [name, i]));
  const hops = names.map((name) => {
    const row = new Float64Array(count).fill(Infinity);
    row[index.get(name)] = 0;
    let front = [name];
    for (let level = 1; front.length > 0; level += 1) {
      const next = [];
      for (const from of front) {
        for (const to of near.get(from)) {
          if (row[index.get(to)] === Infinity) {
            row[index.get(to)] = level;
            next.push(to);
          }
        }
      }
      front = next;
    }
    return row;
  });
  const far = Math.max(1, ...hops.flatMap((row) => [...row].filter(Number.isFinite))) + 1;
  for (const row of hops) row.forEach((distance, i) => { if (distance === Infinity) row[i] = far; });
  // Around a circle, in an order in which neighbours follow each other.
  const order = walk(names, near);
  const x = new Float64Array(count);
  const y = new Float64Array(count);
  order.forEach((name, i) => {
    const angle = (2 * Math.PI * i) / count - Math.PI / 2;
    x[index.get(name)] = Math.cos(angle) * far / 2;
    y[index.get(name)] = Math.sin(angle) * far / 2;
  });
  for (let round = 0; round < ROUNDS; round += 1) {
    for (let i = 0; i < count; i += 1) {
      let [sumX, sumY, weights] = [0, 0, 0];
      for (let j = 0; j < count; j += 1) {
        if (i === j) continue;
        const weight = 1 / hops[i][j] ** 2;
        const apart = Math.hypot(x[i] - x[j], y[i] - y[j]) || 1e-6;
        sumX += weight * (x[j] + (hops[i][j] * (x[i] - x[j])) / apart);
        sumY += weight * (y[j] + (hops[i][j] * (y[i] - y[j])) / apart);
        weights += weight;
      }
      if (weights > 0) [x[i], y[i]] = [sumX / weights, sumY / weights];
    }
  }
  turn(x, y, aspect);
  spread(x, y, size);
  return new Map(names.map((name, i) => [name, { x: x[i], y: y[i] }]));
}

/** So large that most have room, and the others are pushed apart. */
function spread(x, y, size) {
  const count = x.length;
  const { width, height } = size.cell;
  const nearest = [];
  for (let i = 0; i < count; i += 1) {
    let least = Infinity;
    for (let j = 0; j < count; j += 1) {
      if (i !== j) least = Math.min(least, Math.max(Math.abs(x[i] - x[j]) / width, Math.abs(y[i] - y[j]) / height));
    }
    nearest.push(least);
  }
  nearest.sort((a, b) => a - b);
  const typical = nearest[Math.floor(count / 2)];
  // All have room, unless a few are much nearer to each other than most.
  const stretch = Number.isFinite(typical) ? Math.min(1.02 / Math.max(nearest[0], 1e-6), 1.3 / Math.max(typical, 1e-6)) : 1;
  for (let i = 0; i < count; i += 1) [x[i], y[i]] = [x[i] * stretch, y[i] * stretch];
  for (let round = 0; round < ROUNDS; round += 1) {
    let pushed = false;
    for (let i = 0; i < count; i += 1) {
      for (let j = 0; j < i; j += 1) {
        const [dx, dy] = [x[i] - x[j], y[i] - y[j]];
        const [overX, overY] = [width - Math.abs(dx), height - Math.abs(dy)];
        if (overX <= 0.01 || overY <= 0.01) continue;
        pushed = true;
        if (overX / width < overY / height) {
          const move = (dx < 0 ? -overX : overX) / 2;
          x[i] += move;
          x[j] -= move;
        } else {
          const move = (dy < 0 ? -overY : overY) / 2;
          y[i] += move;
          y[j] -= move;
        }
      }
    }
    if (!pushed) return;
  }
}

/** Depth first, along neighbours: a ring comes out in order. */
function walk(names, near) {
  const seen = new Set();
  const order = [];
  for (const start of names) {
    const stack = [start];
    while (stack.length > 0) {
      const name = stack.pop();
      if (seen.has(name)) continue;
      seen.add(name);
      order.push(name);
      stack.push(...[...near.get(name)].sort(byName).reverse());
    }
  }
  return order;
}

/** Lays the longest extent along the wider side. */
function turn(x, y, aspect) {
  const count = x.length;
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, count);
  const [mx, my] = [mean(x), mean(y)];
  let [xx, yy, xy] = [0, 0, 0];
  for (let i = 0; i < count; i += 1) {
    xx += (x[i] - mx) ** 2;
    yy += (y[i] - my) ** 2;
    xy += (x[i] - mx) * (y[i] - my);
  }
  // Of a round one no side is longest: it stays as it is.
  const round = Math.hypot(xx - yy, 2 * xy) < 0.05 * (xx + yy);
  const angle = round ? 0 : Math.atan2(2 * xy, xx - yy) / 2 - (aspect >= 1 ? 0 : Math.PI / 2);
  const [cos, sin] = [Math.cos(-angle), Math.sin(-angle)];
  for (let i = 0; i < count; i += 1) {
    const [dx, dy] = [x[i] - mx, y[i] - my];
    [x[i], y[i]] = [dx * cos - dy * sin, dx * sin + dy * cos];
  }
}
