// Fills the browser of examples from the data block, and switches colours. Texts only ever become text nodes.
const STEP = 20; // examples shown at a time: the rest waits as data
const RUN_FIELDS = ["data", "model", "attack", "protocol"];
const FIELDS = [...RUN_FIELDS, "outcome", "order", "q"];
const percent = (value) => (value === null ? "?" : `${(100 * value).toFixed(1)} %`);

function paragraphs([joined, boundary], spans, tag) {
  const letters = Array.from(joined); // places count characters, not halves of them
  const whole = [[0, letters.length]];
  const parts = boundary === undefined ? whole : [[0, boundary], [boundary + 1, letters.length]];
  return parts.map(([from, to]) => {
    const paragraph = make("p", { className: "text", dir: "auto" });
    let end = from;
    for (const [start, stop] of spans.filter((span) => span[0] >= from && span[1] <= to)) {
      paragraph.append(visible(letters.slice(end, start).join("")));
      paragraph.append(make(tag, {}, visible(letters.slice(start, stop).join(""))));
      end = stop;
    }
    paragraph.append(visible(letters.slice(end, to).join("")));
    return paragraph;
  });
}

function tokens(list, joined) {
  const paragraph = make("p", { className: "text", dir: "auto" });
  let end = 0;
  for (const [text, strength, hidden] of list) {
    const start = joined.indexOf(text, end);
    if (start >= end) {
      paragraph.append(visible(joined.slice(end, start)));
      end = start + text.length;
    } else {
      paragraph.append(" ");
    }
    const title = `saliency ${strength} % of the largest${hidden ? ", hidden in step one" : ""}`;
    const token = make("span", { className: hidden ? "token hidden" : "token", title }, visible(text));
    token.style.backgroundColor = `rgba(var(--heat), ${(0.55 * strength) / 100})`;
    if (hidden) token.append(make("span", { className: "skip" }, " (hidden)"));
    paragraph.append(token);
  }
  paragraph.append(visible(joined.slice(end)));
  return paragraph;
}

function votes(counts) {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const list = make("div", { className: "votes" });
  for (const [name, count] of Object.entries(counts)) {
    const meter = make("meter", { max: total || 1, value: count });
    meter.setAttribute("aria-label", `votes for ${name}`);
    list.append(make("span", {}, name), meter, make("span", {}, `${count} of ${total}`));
  }
  return list;
}

function seen(example, texts) {
  const details = make("details", {}, make("summary", {}, "What the model saw: votes and saliency"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.childElementCount > 1) return; // built once, when it is opened
    const columns = make("div", { className: "texts two" });
    for (const name of ["original", "adversarial"]) {
      const own = example.evidence[name];
      if (!own) continue;
      const title = make("h4", {}, name === "original" ? "Original" : "Adversarial");
      columns.append(make("div", {}, title, votes(own.votes), tokens(own.tokens, texts[example[name]][0])));
    }
    const legend = "Stronger colour: more salient. Dashed outline: hidden in step one.";
    details.append(make("div", {}, columns, make("p", { className: "facts" }, legend)));
  });
  return details;
}

function facts(example, changed) {
  const line = make("p", { className: "facts" }, "true class ", make("b", {}, visible(example.label)));
  line.append(", answer ", make("b", {}, visible(example.before)));
  if (changed) line.append(" \u2192 ", make("b", {}, visible(example.after)));
  line.append(` · P(true) ${percent(example.gold[0])}`);
  if (changed) line.append(` \u2192 ${percent(example.gold[1])}`);
  if (example.outcome !== "skipped") {
    line.append(` · ${example.queries} queries${example.budget_hit ? " (all allowed)" : ""}`);
    line.append(` · ${example.words[0]} of ${example.words[1]} words changed`);
  }
  if (example.fresh[1]) line.append(` · wrong again on ${example.fresh[0]} of ${example.fresh[1]} fresh draws`);
  if (example.tries > 1) line.append(` · ${example.tries} tries`);
  return line;
}

function card(example, data, only) {
  const run = data.runs[example.run];
  const changed = example.original !== example.adversarial;
  const column = (title, text, spans, tag) => make("div", {}, make("h4", {}, title), ...paragraphs(text, spans, tag));
  const title = make("h3", {}, make("span", { className: `outcome ${example.outcome}` }, example.outcome));
  title.append(make("span", {}, `${run.model} · ${run.attack} · ${run.protocol}`));
  const shown = make("div", { className: changed ? "texts two" : "texts" });
  const first = changed ? "Original" : "Text, unchanged";
  shown.append(column(first, data.texts[example.original], example.removed, "del"));
  if (changed) shown.append(column("Adversarial", data.texts[example.adversarial], example.added, "ins"));
  const item = make("li", { className: "example" }, title, facts(example, changed), shown);
  if (example.evidence) item.append(seen(example, data.texts));
  if (data.runs.filter((other) => other.data === run.data).length > 1) {
    const button = make("button", { type: "button" }, `Input ${example.place} in every run`);
    button.addEventListener("click", () => only(run.data, example.place));
    item.append(button);
  }
  return item;
}

const share = ([part, whole]) => part / Math.max(1, whole);
const ORDERS = {
  place: (one, other) => one.place - other.place || one.run - other.run,
  words: (one, other) => share(one.words) - share(other.words),
  queries: (one, other) => one.queries - other.queries,
  flips: (one, other) => share(other.fresh) - share(one.fresh),
};

function browser() {
  const data = JSON.parse(byId("data").textContent);
  const form = byId("filters");
  const lower = data.texts.map((text) => text[0].toLowerCase());
  const counted = (number) => number.toLocaleString("en");
  let input = null; // the place of one input, to see it in every run
  let found = [];
  let shown = 0;

  function matches(example, wanted) {
    const run = data.runs[example.run];
    return RUN_FIELDS.every((name) => !wanted[name] || run[name] === wanted[name])
      && (!wanted.outcome || example.outcome === wanted.outcome)
      && (wanted.order === "place" || example.outcome === "succeeded") // the other orders are about successes
      && (input === null || example.place === input)
      && (!wanted.q || lower[example.original].includes(wanted.q) || lower[example.adversarial].includes(wanted.q));
  }

  function more() {
    const next = found.slice(shown, shown + STEP);
    byId("list").append(...next.map((example) => card(example, data, only)));
    shown += next.length;
    byId("more").hidden = shown >= found.length;
    let text = `${counted(found.length)} of ${counted(data.examples.length)} examples`;
    if (input !== null) text += `, input ${input} only`;
    if (shown < found.length) text += `, ${counted(shown)} shown`;
    byId("count").textContent = text;
  }

  function update(remember) {
    const wanted = Object.fromEntries(FIELDS.map((name) => [name, form.elements[name].value]));
    if (!(wanted.order in ORDERS)) wanted.order = "place";
    const state = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value));
    if (wanted.order === "place") state.delete("order");
    if (input !== null) state.set("input", input);
    const plain = state.toString() === "";
    if (remember) history.replaceState(null, "", plain ? "#examples" : `#${state}`);
    byId("reset").hidden = plain;
    wanted.q = wanted.q.trim().toLowerCase();
    found = data.examples.filter((example) => matches(example, wanted)).sort(ORDERS[wanted.order]);
    byId("list").replaceChildren();
    shown = 0;
    more();
  }

  function only(sample, place) {
    form.reset();
    form.elements.data.value = sample;
    input = place;
    update(true);
    byId("examples").scrollIntoView();
  }

  function read() { // what an address like #model=RSMI&outcome=succeeded asks for
    if (!location.hash.includes("=")) return false;
    const state = new URLSearchParams(location.hash.slice(1));
    form.reset();
    for (const name of FIELDS) if (state.has(name)) form.elements[name].value = state.get(name);
    input = state.has("input") ? Number(state.get("input")) : null;
    return true;
  }

  let waiting;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => update(true), 120);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  byId("more").addEventListener("click", more);
  byId("reset").addEventListener("click", () => {
    form.reset();
    input = null;
    update(true);
  });
  addEventListener("hashchange", () => {
    if (read()) update(false);
  });
  const linked = read();
  update(false);
  if (linked) byId("examples").scrollIntoView();
}

addEventListener("beforeprint", () => { // folded numbers belong on paper, too
  for (const details of document.querySelectorAll("[id^=sample] details")) details.open = true;
});
theme(new URLSearchParams(location.search).get("theme"));
browser();
