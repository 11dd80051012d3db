// Small parts that everything uses, and how the server is asked. Texts only ever become text nodes.
const TYPING = 250; // milliseconds of rest after which a text is sent
const CERTIFY = 900; // and after which it is certified, which takes longer
const ROWS = 200; // queries of an attack that are listed
const EXAMPLE = "It could have been a joy to watch, but the plot is dull and the jokes fall flat.";
// Invisible characters can hide an attack, and some turn the direction of the line: they are named instead.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const byId = (id) => document.getElementById(id);
const code = (letter) => letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
const visible = (text) => String(text).replace(INVISIBLE, (letter) => `\u27e8U+${code(letter)}\u27e9`);
const percent = (value) => `${(100 * value).toFixed(1)} %`;
let offer = null; // what the server says it can do
let shown = null; // the decision that is shown

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function remembered(value) {
  try { // private windows may not be allowed to remember anything
    if (value) localStorage.setItem("rsmi-theme", value);
    return localStorage.getItem("rsmi-theme");
  } catch {
    return null;
  }
}

function theme() {
  const button = byId("theme");
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`);
  };
  const wanted = remembered();
  if (wanted) root.dataset.theme = wanted;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remembered(root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
}



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
