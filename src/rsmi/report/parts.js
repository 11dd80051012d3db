// Small parts that every page of ours uses. Texts only ever become text nodes.
// Invisible characters can hide an attack, and some turn the direction of the line: they are named instead.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const byId = (id) => document.getElementById(id);
const code = (letter) => letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
const visible = (text) => String(text).replace(INVISIBLE, (letter) => `\u27e8U+${code(letter)}\u27e9`);

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function remembered(value) {
  try { // private windows, and pages opened from a file, may not be allowed to remember anything
    if (value) localStorage.setItem("rsmi-theme", value);
    return localStorage.getItem("rsmi-theme");
  } catch {
    return null;
  }
}

function theme(asked) { // "light" or "dark"; otherwise what was chosen last, or the system's
  const button = byId("theme");
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`);
  };
  const wanted = asked || remembered();
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
