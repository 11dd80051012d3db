// An attack, query by query.
function changed(before, after) { // words of `after`, those that are new marked
  const [old, now] = [joined(before), joined(after)].map((text) => text.split(/(\s+)/));
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  const shortest = Math.min(old.length, now.length) - start;
  while (end < shortest && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  const aligned = old.length === now.length;
  const parts = [];
  now.forEach((word, place) => {
    const inside = place >= start && place < now.length - end;
    const fresh = inside && word.trim() && !(aligned && old[place] === word);
    parts.push(fresh ? make("ins", {}, visible(word)) : visible(word));
  });
  return parts;
}

function chart(golds) {
  const svg = byId("attack-chart");
  const line = (tag, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const across = (place) => (golds.length > 1 ? (600 * place) / (golds.length - 1) : 0);
  const points = golds.map((gold, place) => `${across(place).toFixed(1)},${(125 - 120 * gold).toFixed(1)}`).join(" ");
  const named = (y, text) => {
    const element = line("text", { x: 600, y, "text-anchor": "end" });
    element.textContent = text;
    return element;
  };
  svg.replaceChildren(
    line("line", { x1: 0, x2: 600, y1: 65, y2: 65, class: "half" }), line("polyline", { points, class: "gold" }),
    named(20, "100 %"), named(61, "50 %"), named(124, "0 %"));
}

async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (left + value).split("\n");
    left = lines.pop();
    for (const text of lines) yield JSON.parse(text);
  }
}

function row(query, original) {
  const cells = [
    make("td", { className: "number" }, query.number), make("td", { className: "number" }, percent(query.gold)),
    make("td", {}, visible(query.label)), make("td", {}, ...changed(original, query.text)),
  ];
  return make("tr", { className: query.wrong ? "wrong" : "" }, ...cells);
}

function ended(record) {
  const result = byId("attack-result");
  const again = record.fresh_draws ? ` Asked again under fresh noise, ${record.fresh_flips} of ${record.fresh_draws} answers are wrong.` : "";
  const words = {
    succeeded: `Fooled after ${record.queries} queries: ${record.label_before} became ${record.label_after}, with ${record.words_changed} of ${record.num_words} words changed.${again}`,
    failed: `Withstood: ${record.queries} queries${record.budget_hit ? ", all that were allowed" : ""}, and the answer is still ${record.label_before}.`,
    skipped: `Not attacked: under other noise the answer is ${record.label_before}, not ${record.label}, without any change.`,
  };
  const title = make("p", {}, make("span", { className: `outcome ${record.outcome}` }, `attack ${record.outcome}`));
  const nearest = make("p", { className: "text", dir: "auto" }, ...changed(record.original, record.adversarial));
  result.replaceChildren(title, nearest);
  return words[record.outcome];
}

let attacking = null;

async function attack(event) {
  event.preventDefault();
  const status = byId("attack-status");
  const text = given();
  if (!joined(text).trim()) {
    complain(status, new Error("Type a text first."));
    return;
  }
  attacking = new AbortController();
  byId("attack-go").disabled = true;
  byId("attack-stop").disabled = false;
  byId("attack-result").replaceChildren();
  byId("attack-log").replaceChildren();
  status.classList.remove("error");
  status.textContent = "Attacking.";
  const golds = [];
  let told = 0;
  let budget = 0;
  try {
    const body = { text, attack: byId("attack-name").value, max_queries: Number(byId("attack-queries").value) || 1 };
    // The answer that is shown is attacked: without a seed a close one may be another one when it is asked for again.
    if (shown && shown.label !== null && joined(shown.text) === joined(text)) body.label = shown.label;
    for await (const own of events(await ask("/v1/attack", body, attacking.signal))) {
      if (own.event === "start") {
        budget = own.max_queries;
        byId("attack-shown").hidden = false;
        byId("gold-head").textContent = `P(${visible(own.label)})`;
      } else if (own.event === "query") {
        golds.push(own.gold);
        const log = byId("attack-log");
        log.prepend(row(own, text));
        if (log.childElementCount > ROWS) log.lastElementChild.remove();
        byId("attack-caption").textContent = `${golds.length} of ${budget} queries; lowest ${percent(Math.min(...golds))}`;
        if (golds.length % 4 === 1) chart(golds);
        if (Date.now() - told > 3000) { // a screen reader is told now and then, not five hundred times
          told = Date.now();
          status.textContent = `${golds.length} of ${budget} queries asked.`;
        }
      } else if (own.event === "end") {
        status.textContent = ended(own.record);
      } else if (own.event !== "again") {
        status.textContent = own.message || `Stopped: ${own.reason}.`;
      }
    }
  } catch (error) {
    if (attacking.signal.aborted) status.textContent = `Stopped after ${golds.length} queries.`;
    else complain(status, error);
  }
  if (golds.length) chart(golds);
  byId("attack-go").disabled = false;
  byId("attack-stop").disabled = true;
}
