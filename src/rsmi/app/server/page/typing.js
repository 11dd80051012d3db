// What the user types -> questions to the server, the older ones given up.
let asking = null;
let timers = [];

function forget() {
  timers.forEach(clearTimeout);
  timers = [];
  if (asking) asking.abort();
  asking = new AbortController();
}

async function decide(text, signal) {
  const status = byId("status");
  try {
    const answer = await (await ask("/v1/explain", { text, quality: byId("quality").value }, signal)).json();
    status.classList.remove("error");
    show(answer.results[0]);
  } catch (error) {
    if (signal.aborted) return;
    if (error.wait) timers.push(setTimeout(() => decide(text, signal), 1000 * error.wait));
    complain(status, error);
  }
}

async function certify(text, signal) {
  const place = byId("certificate");
  const samples = Number(byId("samples").value);
  if (!samples || !offer || !offer.certificate) {
    place.replaceChildren(make("p", {}, offer && !offer.certificate ? "This model has none." : "Not asked for."));
    return;
  }
  place.replaceChildren(make("p", {}, `Drawing ${samples} copies\u2026`));
  try {
    const most = Math.min(samples, offer.limits.max_samples);
    const body = { text, estimation_samples: most, selection_samples: Math.max(10, Math.min(100, most / 5)) };
    const answer = await (await ask("/v1/certify", body, signal)).json();
    place.replaceChildren(...proved(answer.results[0]));
  } catch (error) {
    if (!signal.aborted) place.replaceChildren(make("p", {}, error.message));
  }
}

function typed() {
  forget();
  const text = given();
  if (!joined(text).trim() || (typeof text !== "string" && !text[0].trim())) {
    byId("result").hidden = true;
    byId("status").classList.remove("error");
    byId("status").textContent = "Nothing to decide about yet.";
    return;
  }
  byId("result").classList.add("old");
  byId("certificate").replaceChildren(make("p", {}, "Waiting for you to stop typing."));
  const { signal } = asking;
  timers.push(setTimeout(() => decide(text, signal), TYPING), setTimeout(() => certify(text, signal), CERTIFY));
}
