// Asks the controller again and again, and shows what it says.

import { Away, Refused, ask, follow, token } from "./api.js";
import { NetworkMap } from "./map.js";
import { Palette, Rates, cables, counter, isOpen, jobName, linkRates } from "./model.js";
import { Detail, Events, Jobs, Links, Slots } from "./panels.js";

/** Milliseconds between questions; of a large network the answers are large. */
const PERIOD = 1000;
const LARGE_PERIOD = 3000;
const LARGE = 500;
/** Before an event stream that has ended is asked for again. */
const AGAIN = 2000;
/** Events after which the status is asked for at once. */
const SOON = 120;

const $ = (id) => document.getElementById(id);

const palette = new Palette();
const rates = new Rates();
/** Plans by group and generation. */
const plans = new Map();
const state = { status: null, detail: null, selected: null, chosen: null, failed: 0 };

const map = new NetworkMap($("map"), select);
const jobs = new Jobs($("jobs"), (key) => { state.chosen = key; draw(); });
const slots = new Slots($("switches"), select);
const links = new Links($("links"));
const events = new Events($("events"));
const detail = new Detail($("detail"), () => select(null));

/** Shows one switch in detail. */
function select(name) {
  state.selected = name;
  state.detail = null;
  if (name === null) detail.hide();
  draw();
  wake();
}

/** The trees of groups that have some, with what a chunk puts on each link. Asked for once a generation. */
async function learnPlans(groups) {
  const wanted = new Map(groups.filter((group) => group.tree.length > 0).map((group) => [`${group.key}\0${group.generation}`, group]));
  for (const key of [...plans.keys()]) if (!wanted.has(key)) plans.delete(key);
  for (const [key, group] of wanted) {
    if (plans.has(key)) continue;
    const question = { job: group.name, group: group.group };
    const trees = new Set(group.tree.map((node) => node.tree_id)).size;
    let plan = await ask("v1/plan", question);
    // Chunks go to the trees in turn: so many that each gets one.
    if (trees > 1) plan = await ask("v1/plan", { ...question, elements: plan.elements * trees });
    if (plan.installed) plans.set(key, plan);
  }
}

/** The groups that are open as they are drawn. */
function dress(groups) {
  return groups.map((group) => {
    const key = jobName(group);
    const plan = plans.get(`${key}\0${group.generation}`);
    return {
      ...group, key, label: key, plan, colour: palette.of(key), hosts: plan ? hostsOf(plan) : [],
      chunkRate: rates.rate(counter(key, "chunks")),
      sentRate: (rates.rate(counter(key, "sent_bytes")) * 8) / Math.max(1, group.joined_ranks.length),
      history: [...rates.history(counter(key, "chunks"))],
    };
  });
}

/** Addresses of a group's hosts with their ranks: a plan names the links from hosts in the order of the ranks. */
function hostsOf(plan) {
  const ranks = [...new Set(plan.tree.flatMap((node) => node.ranks))].sort((a, b) => a - b);
  const addresses = plan.links.filter((load) => load.from_port === 0).map((load) => load.from);
  return ranks.map((rank, i) => [addresses[i], rank]);
}

function note(status) {
  const open = status.jobs.filter(isOpen);
  const names = new Set(open.map(jobName));
  palette.keep(names);
  rates.keep(names);
  for (const group of open) {
    if (!group.progress) continue;
    for (const what of ["chunks", "sent_bytes"]) rates.tell(counter(jobName(group), what), group.progress[what], status.time_ms);
  }
}

/** Which groups have how many slots of each switch. */
function sharesOf(status, groups) {
  const shares = new Map(status.switches.map((one) => [one.name, []]));
  for (const { plan, colour, label } of groups) {
    for (const share of plan?.slots ?? []) shares.get(share.switch_name)?.push({ colour, label, slots: share.needed });
  }
  for (const one of status.switches) {
    const list = shares.get(one.name);
    const rest = one.slots_used - list.reduce((sum, share) => sum + share.slots, 0);
    if (rest > 0) list.push({ colour: null, label: "others", slots: rest });
  }
  return shares;
}

const many = (count, noun) => `${count} ${noun}${count === 1 ? "" : noun.endsWith("switch") ? "es" : "s"}`;

function draw() {
  const { status } = state;
  if (!status) return;
  const open = status.jobs.filter(isOpen).sort((a, b) => jobName(a).localeCompare(jobName(b), "en", { numeric: true }));
  const groups = dress(open.map((group) => ({ ...group, key: jobName(group) })));
  const ended = status.jobs.filter((group) => !isOpen(group)).map((group) => ({ ...group, label: jobName(group) }));
  if (!groups.some((group) => group.key === state.chosen)) state.chosen = null;
  const found = cables(status.links);
  const shares = sharesOf(status, groups);
  const loads = linkRates(groups.filter((group) => group.plan).map((group) => [group.key, group.plan]), rates);
  map.show({ status, cables: found, groups, rates: loads, shares, selected: state.selected, chosen: state.chosen });
  jobs.show(groups, ended, state.chosen);
  slots.show(status.switches, shares);
  links.show(found, loads);
  $("empty").hidden = status.switches.length > 0;
  $("summary").textContent = [
    many(status.switches.length, "switch"), many(found.length, "link"), many(status.hosts.length, "host"), many(open.length, "job"),
  ].join(" · ");
  document.title = open.length > 0 ? `inca · ${many(open.length, "job")}` : "inca";
  if (state.selected !== null) {
    const plain = status.switches.find((one) => one.name === state.selected);
    if (plain) detail.show(state.detail ? { ...plain, counters: state.detail.counters } : plain, found, status.hosts, groups);
    else select(null);
  }
}

function health(tone, words) {
  $("health").className = `health ${tone}`;
  const text = $("health").querySelector(".words");
  if (text.textContent !== words) text.textContent = words;
}

/** One round of questions. */
async function look() {
  const status = await ask("v1/status");
  note(status);
  const open = status.jobs.filter(isOpen).map((group) => ({ ...group, key: jobName(group) }));
  // A group that changes just now has no plan for a moment; it has one at the next look.
  await learnPlans(open).catch((error) => { if (!(error instanceof Refused)) throw error; });
  if (state.selected !== null && status.switches.some((one) => one.name === state.selected)) {
    const selected = state.selected;
    const found = await ask(`v1/switches/${encodeURIComponent(selected)}`);
    if (state.selected === selected) state.detail = found;
  }
  state.status = status;
  const away = status.switches.filter((one) => one.state !== "ready").length;
  if (!status.in_charge) health("warn", "standing by: another controller is in charge");
  else if (away > 0) health("warn", `in charge; ${many(away, "switch")} not ready`);
  else health("good", "in charge");
}

let wakeUp = () => {};
const wake = () => wakeUp();

/** Resolves after a time, or when something has happened. */
function pause(milliseconds) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    wakeUp = () => {
      clearTimeout(timer);
      setTimeout(resolve, SOON);
    };
  });
}

async function keepLooking() {
  for (;;) {
    if (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    try {
      await look();
      document.body.classList.remove("lost");
      draw();
    } catch (error) {
      if (error instanceof Refused && error.status === 401) await askForToken(token.get() ? error.message : "");
      else {
        document.body.classList.add("lost");
        health("bad", error.message);
        if (!(error instanceof Away || error instanceof Refused)) console.error(error);
      }
    }
    const size = (state.status?.switches.length ?? 0) + (state.status?.hosts.length ?? 0);
    await pause(size > LARGE ? LARGE_PERIOD : PERIOD);
  }
}

let listening = new AbortController();

async function keepListening() {
  let last = 0;
  for (;;) {
    try {
      await follow(last, (event) => {
        if (events.add(event)) wake();
        // Numbers begin anew with each controller.
        last = event.number || last;
      }, listening.signal);
    } catch (error) {
      // The other loop says what is wrong.
      if (listening.signal.aborted) listening = new AbortController();
      else if (error instanceof SyntaxError) console.error(error);
    }
    // Perhaps another controller: those that are known are not listed twice.
    last = 0;
    await new Promise((resolve) => setTimeout(resolve, AGAIN));
  }
}

/** Asks for a token until there is one. */
async function askForToken(reason) {
  const door = $("door");
  health("warn", "a token is needed");
  $("door-reason").textContent = reason;
  $("token").value = "";
  door.showModal();
  await new Promise((resolve) => door.addEventListener("close", resolve, { once: true }));
  const given = $("token").value.trim();
  $("token").value = "";
  if (given) token.set(given);
  $("sign-out").hidden = !token.get();
  listening.abort();
}

function forget() {
  token.clear();
  state.status = null;
  location.reload();
}

const THEMES = ["automatic", "light", "dark"];

function theme(name) {
  if (name === "automatic") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  $("theme").textContent = `Theme: ${name}`;
  localStorage.setItem("inca-theme", name);
}

$("theme").addEventListener("click", () => {
  const now = localStorage.getItem("inca-theme");
  theme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});
theme(THEMES.includes(localStorage.getItem("inca-theme")) ? localStorage.getItem("inca-theme") : "automatic");
$("sign-out").addEventListener("click", forget);
$("sign-out").hidden = !token.get();
$("zoom-in").addEventListener("click", () => map.zoom(1.25));
$("zoom-out").addEventListener("click", () => map.zoom(0.8));
$("zoom-fit").addEventListener("click", () => map.fit());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && state.selected !== null) select(null);
});

keepLooking();
keepListening();
