// Fills the page with what the server offers, and listens.
async function open() {
  try {
    offer = await (await ask("/v1/model")).json();
  } catch (error) {
    byId("about").textContent = error.status === 401 ? "a key is needed" : error.message;
    if (error.status !== 401) setTimeout(open, 1000 * (error.wait || 2));
    return;
  }
  byId("about").textContent = `${offer.name} \u00b7 ${offer.classes.join(", ")} \u00b7 reads ${offer.max_tokens} tokens at once \u00b7 rsmi ${offer.version}`;
  document.title = `${offer.name} \u00b7 rsmi playground`;
  byId("samples").disabled = !offer.certificate;
  for (const option of byId("samples").options) option.disabled = Number(option.value) > offer.limits.max_samples;
  byId("attack-name").replaceChildren(...offer.attacks.map((name) => make("option", { value: name }, name)));
  byId("attack-queries").max = offer.limits.attack_queries;
  byId("attack-queries").value = Math.min(300, offer.limits.attack_queries);
  byId("attack").hidden = !offer.attacks.length;
  if (joined(given()).trim()) typed();
}

theme();
byId("ask").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["text", "second", "quality", "samples"]) byId(id).addEventListener("input", typed);
byId("pair").addEventListener("toggle", typed);
byId("key").addEventListener("change", open);
byId("example").addEventListener("click", () => {
  byId("text").value = EXAMPLE;
  typed();
});
byId("attack-form").addEventListener("submit", attack);
byId("attack-stop").addEventListener("click", () => attacking && attacking.abort());
open();
