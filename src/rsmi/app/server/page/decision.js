// A decision and a certificate -> what is shown of them.
function meters(shares, spell) {
  const list = [];
  const largest = Math.max(1e-9, Object.values(shares).reduce((sum, share) => sum + share, 0));
  for (const [name, share] of Object.entries(shares)) {
    const meter = make("meter", { max: largest, value: share });
    meter.setAttribute("aria-label", `${name}: ${spell(share, largest)}`);
    list.push(make("span", {}, visible(name)), meter, make("span", {}, spell(share, largest)));
  }
  return list;
}

function facts(result) {
  const rows = [
    ["step two needed", result.escalated ? "yes" : "no"],
    ["copies classified", result.copies],
    ["looks under attack", percent(result.under_attack)],
  ];
  byId("facts").replaceChildren(...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function votes(result) {
  const counted = (count, total) => `${count} of ${total}`;
  const step = (title, counts) => [
    make("h4", {}, title), make("div", { className: "votes" }, ...meters(counts, counted)),
  ];
  const parts = step("Step one", result.first_votes);
  if (result.second_votes) parts.push(...step("Step two", result.second_votes));
  else parts.push(make("p", {}, "Step two was not needed."));
  byId("votes").replaceChildren(...parts);
}

// Tokens of all windows in the order of the text, those that two windows share once; special ones left out.
function ordered(result) {
  const hidden = new Set(result.masked);
  const pool = new Set(result.candidates);
  const found = new Map();
  result.tokens.forEach((token, place) => {
    if (token.sequence < 0 || token.end <= token.start) return;
    const name = `${token.sequence} ${token.start}`;
    const known = found.get(name);
    found.set(name, {
      ...token,
      saliency: Math.max(token.saliency, known ? known.saliency : 0),
      hidden: hidden.has(place) || Boolean(known && known.hidden),
      pooled: pool.has(place) || Boolean(known && known.pooled),
    });
  });
  return [...found.values()].sort((one, other) => one.sequence - other.sequence || one.start - other.start);
}

function spelled(text, tokens, draw) {
  const parts = typeof text === "string" ? [text] : text;
  return parts.map((part, sequence) => {
    const letters = Array.from(part); // places count characters, not halves of them
    const paragraph = make("p", { className: "text", dir: "auto" });
    let end = 0;
    for (const token of tokens.filter((own) => own.sequence === sequence && own.start >= 0)) {
      if (token.start < end) continue;
      paragraph.append(visible(letters.slice(end, token.start).join("")));
      paragraph.append(draw(token, visible(letters.slice(token.start, token.end).join(""))));
      end = token.end;
    }
    paragraph.append(visible(letters.slice(end).join("")));
    return paragraph;
  });
}

function salient(result, tokens) {
  const strongest = Math.max(...tokens.map((token) => token.saliency), 0);
  byId("tokens").replaceChildren(...spelled(result.text, tokens, (token, text) => {
    const share = strongest ? token.saliency / strongest : 0;
    const title = `saliency ${Math.round(100 * share)} % of the largest${token.hidden ? ", hidden in step one" : ""}`;
    const element = make("span", { className: token.hidden ? "token hidden" : "token", title }, text);
    element.style.backgroundColor = `rgba(var(--heat), ${0.55 * share})`;
    if (token.hidden) element.append(make("span", { className: "skip" }, " (hidden)"));
    return element;
  }));
  const names = tokens.filter((token) => token.saliency > 0).sort((one, other) => other.saliency - one.saliency);
  byId("legend").textContent = names.length
    ? `Stronger colour: more salient. Dashed outline: hidden in step one. Most salient: ${
      names.slice(0, 5).map((token) => visible(token.text)).join(", ")}.`
    : "No saliency: this quality, or this model, does not look for it.";
}

function copies(result, tokens) {
  const box = (title, ...children) => make("div", { className: "copy" }, make("h4", {}, title), ...children);
  const first = Object.values(result.first_votes).reduce((sum, count) => sum + count, 0);
  const parts = [];
  if (tokens.some((token) => token.hidden)) {
    parts.push(box(`Step one: ${first} copies like this, each with noise of its own`,
      ...spelled(result.text, tokens, (token, text) => (
        token.hidden ? make("span", { className: "mask" }, "hidden") : text))));
  } else if (!result.masks_wanted) {
    parts.push(make("p", {}, `Nothing is hidden: ${first} copies of the whole text, each with noise of its own.`));
  } else {
    parts.push(make("p", {}, `Each of the ${first} copies hides ${result.masks_wanted} tokens drawn at random.`));
  }
  if (result.second_votes && tokens.some((token) => token.pooled)) {
    const second = Object.values(result.second_votes).reduce((sum, count) => sum + count, 0);
    parts.push(box(`Step two: ${second} copies, each hiding ${result.masks_wanted} drawn from the marked tokens`,
      ...spelled(result.text, tokens, (token, text) => (
        token.pooled ? make("span", { className: "pool" }, text) : text))));
  }
  byId("copies").replaceChildren(...parts);
}

function show(result) {
  shown = result;
  const share = Math.max(...Object.values(result.probabilities));
  const label = result.abstained ? "abstains" : visible(result.label);
  byId("label").replaceChildren(label, " ", make("span", {}, percent(share)));
  byId("probabilities").replaceChildren(...meters(result.probabilities, (own) => percent(own)));
  byId("status").textContent = result.abstained
    ? `No decision: too close to call, ${percent(share)}.`
    : `${visible(result.label)}, ${percent(share)}${result.escalated ? ", after step two" : ""}.`;
  facts(result);
  votes(result);
  const tokens = ordered(result);
  salient(result, tokens);
  copies(result, tokens);
  const told = result.windows;
  byId("windows").hidden = !told;
  if (told) {
    byId("windows").textContent = `This text has ${told.tokens} tokens; the model reads ${told.max_tokens} at once. `
      + `It was read in ${told.count} overlapping windows: ${told.rule}. Window ${told.decisive + 1} is the surest.`;
  }
  byId("result").hidden = false;
  byId("result").classList.remove("old");
}

function complain(place, error) {
  place.classList.add("error");
  place.textContent = `${error.message}`;
}



const COVERED = {
  "l0-mask": (count) => `any ${count} words become something else`,
  edit: (count) => `any ${count} words are inserted, deleted or replaced`,
  synonym: (count) => `any ${count} words are replaced by synonyms`,
};

function proved(own) {
  const line = (text) => make("p", {}, text);
  if (own.windows) return [line(`None: the text is longer than the model reads at once (${own.windows.tokens} tokens).`)];
  if (own.label === null) return [line(`Nothing is proved by ${own.samples} draws: the votes are too close.`)];
  const words = COVERED[own.kind];
  const label = `The label stays ${visible(own.label)}`;
  const sentence = words
    ? `${label} whichever way ${words(own.radius)}.`
    : `${label} for whatever moves the text by less than this, measured in: ${own.space}.`;
  const radius = make("p", { className: "radius" }, words ? `${own.radius} of ${own.num_words} words` : `radius ${own.radius.toFixed(3)}`);
  return [radius, line(sentence), line(`Wrong with chance ${own.failure_prob} at most; ${own.samples} draws.`)];
}
