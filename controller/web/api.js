// Questions to the controller, at the address this page came from and nowhere else.

const KEY = "inca-token";

/** The bearer token of this tab; it never leaves it but for the controller. */
export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  clear: () => sessionStorage.removeItem(KEY),
};

/** The controller refused: `status` is HTTP's, the message its own words. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Nobody answers, or not in time. */
export class Away extends Error {
  constructor() {
    super("the controller does not answer; trying again");
  }
}

function headers(more = {}) {
  const bearer = token.get();
  return bearer ? { ...more, authorization: `Bearer ${bearer}` } : more;
}

async function taken(response) {
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Refused(response.status, problem.detail ?? `status ${response.status}`);
}

/** A document of the REST API; with a body it is a POST. */
export async function ask(path, body) {
  const options = body === undefined
    ? { headers: headers() }
    : { method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body) };
  const signal = AbortSignal.timeout(10_000);
  const response = await fetch(path, { ...options, signal }).catch(() => { throw new Away(); });
  return (await taken(response)).json();
}

/**
 * Events as they happen, those that are remembered first. Returns when the stream ends.
 *
 * By fetch, since an EventSource can't show a token.
 */
export async function follow(after, onEvent, signal) {
  const response = await taken(await fetch(`v1/events/stream?after=${after}`, { headers: headers(), signal }));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
      if (data.length > 0) onEvent(JSON.parse(data.join("\n")));
    }
  }
}
