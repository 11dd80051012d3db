// How the server is asked.
const TYPING = 250; // milliseconds of rest after which a text is sent
const CERTIFY = 900; // and after which it is certified, which takes longer
const ROWS = 200; // queries of an attack that are listed
const EXAMPLE = "It could have been a joy to watch, but the plot is dull and the jokes fall flat.";
const percent = (value) => `${(100 * value).toFixed(1)} %`;
let offer = null; // what the server says it can do
let shown = null; // the decision that is shown

class Failure extends Error {
  constructor(status, message, wait) {
    super(message);
    this.status = status;
    this.wait = wait;
  }
}

async function ask(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  if (byId("key").value) headers.Authorization = `Bearer ${byId("key").value}`;
  const options = { headers, signal };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  const answer = await fetch(path, options);
  byId("key-row").hidden = answer.status !== 401 && !byId("key").value;
  if (answer.ok) return answer;
  const error = await answer.json().then((own) => own.error, () => ({ message: `status ${answer.status}` }));
  throw new Failure(answer.status, error.message, Number(answer.headers.get("Retry-After")) || 0);
}

function given() {
  const text = byId("text").value;
  const second = byId("pair").open ? byId("second").value : "";
  return second.trim() ? [text, second] : text;
}

const joined = (text) => (typeof text === "string" ? text : text.join(" \u2016 "));
