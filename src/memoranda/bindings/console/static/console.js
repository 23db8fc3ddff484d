// The script of the console: search while typing, new memories, shortcuts, local times, and buttons that copy.
// Every page works without it.

const live = document.querySelector("form[data-live]");
const offline = document.querySelector(".offline");
// Milliseconds between two looks for new memories, and from the last key to a search.
const LIVE_MS = 4000;
const TYPING_MS = 120;
// Marks requests that no person started; they do not prolong the session.
const LIVE = { "x-memoranda-live": "1" };

function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.getTime())) time.title = moment.toLocaleString();
  }
  for (const button of root.querySelectorAll("button[data-copy]")) {
    button.hidden = !navigator.clipboard;
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = document.body.dataset.copied;
});

// --- search while typing, and new memories ------------------------------------------------------------------

let runningRequest = null;

function searchUrl() {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(live)) if (value) fields.append(name, value);
  const query = fields.toString();
  return live.getAttribute("action") + (query ? `?${query}` : "");
}

async function refresh(url, { remember }) {
  runningRequest?.abort();
  const request = (runningRequest = new AbortController());
  let text;
  try {
    const headers = { accept: "text/html", ...(remember ? {} : LIVE) };
    const answer = await fetch(url, { signal: request.signal, headers });
    if (answer.redirected) { location.href = answer.url; return; }
    text = await answer.text();
    offline.hidden = true;
  } catch (error) {
    if (error.name !== "AbortError") offline.hidden = false;
    return;
  }
  const incoming = new DOMParser().parseFromString(text, "text/html").getElementById(live.dataset.live);
  const current = document.getElementById(live.dataset.live);
  if (!incoming || !current) return;
  if (remember) history.replaceState(null, "", url);
  if (incoming.textContent === current.textContent) return;
  const selected = new Set([...current.querySelectorAll("input[name=id]:checked")].map((box) => box.value));
  current.replaceChildren(...incoming.childNodes);
  for (const box of current.querySelectorAll("input[name=id]")) box.checked = selected.has(box.value);
  localise(current);
}

if (live) {
  let typing = 0;
  live.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => refresh(searchUrl(), { remember: true }), TYPING_MS);
  });
  live.addEventListener("submit", (event) => {
    event.preventDefault();
    refresh(searchUrl(), { remember: true });
  });
  let lastSeq = null;
  setInterval(async () => {
    const isReading = document.activeElement?.closest("#results") || document.querySelector("#results input:checked");
    if (document.hidden || isReading) return;
    try {
      const answer = await fetch(`${live.getAttribute("action")}latest`, { headers: LIVE });
      if (answer.redirected) { location.reload(); return; }
      const { seq } = await answer.json();
      offline.hidden = true;
      if (lastSeq === seq) return;
      await refresh(location.pathname + location.search, { remember: false });
      lastSeq = seq;
    } catch { offline.hidden = false; }
  }, LIVE_MS);
}

// --- checks and completions of a query while typing -----------------------------------------------------------

const editor = document.querySelector("[data-check]");
if (editor) {
  const verdict = document.getElementById("checked");
  const list = document.getElementById("completions");
  let writing = 0;
  let at = -1;

  const options = () => [...list.children];
  const close = () => { list.hidden = true; list.replaceChildren(); editor.removeAttribute("aria-activedescendant"); at = -1; };
  function choose(next) {
    const items = options();
    at = (next + items.length) % items.length;
    items.forEach((option, index) => option.setAttribute("aria-selected", String(index === at)));
    editor.setAttribute("aria-activedescendant", items[at].id);
    items[at].scrollIntoView({ block: "nearest" });
  }
  function take(option) {
    const before = editor.value.slice(0, editor.selectionStart);
    const after = editor.value.slice(editor.selectionEnd);
    const start = before.slice(0, before.length - Number(option.dataset.typed));
    editor.value = `${start}${option.textContent} ${after}`;
    editor.selectionStart = editor.selectionEnd = start.length + option.textContent.length + 1;
    close();
    editor.focus();
    ask();
  }
  function offer(word, words) {
    close();
    list.replaceChildren(...words.map((text, index) => {
      const option = Object.assign(document.createElement("li"), { id: `completion-${index}`, textContent: text });
      option.setAttribute("role", "option");
      option.dataset.typed = word.length;
      return option;
    }));
    list.hidden = !words.length;
    if (words.length) choose(0);
  }
  async function ask() {
    const before = editor.value.slice(0, editor.selectionStart);
    try {
      const fields = new URLSearchParams({ query: editor.value, before });
      const answer = await fetch(`${editor.dataset.check}?${fields}`, { headers: LIVE });
      const result = await answer.json();
      verdict.textContent = !editor.value.trim() ? "" : result.valid ? document.body.dataset.canRun : result.error.message;
      if (document.activeElement === editor) offer(result.word, result.completions);
    } catch { verdict.textContent = ""; }
  }
  editor.addEventListener("input", () => { clearTimeout(writing); writing = setTimeout(ask, TYPING_MS); });
  editor.addEventListener("blur", () => setTimeout(close, 200));
  list.addEventListener("mousedown", (event) => { event.preventDefault(); take(event.target.closest("li")); });
  editor.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "Escape") close();
    else if (event.key === "Tab" && !event.shiftKey) take(options()[at]);
    else if (event.key === "ArrowDown") choose(at + 1);
    else if (event.key === "ArrowUp") choose(at - 1);
    else return;
    event.preventDefault();
  });
}

// --- sliders for dates -----------------------------------------------------------------------------------------

const DAY_MS = 86400000;
// A slider reaches two years back; at its right end the date is empty.
for (const date of document.querySelectorAll("input[type=date]")) {
  const slider = Object.assign(document.createElement("input"), { type: "range", min: -730, max: 0, step: 1, className: "range" });
  slider.setAttribute("aria-label", document.body.dataset.byDays.replace("{label}", date.labels[0].textContent.trim()));
  slider.value = date.value ? Math.round((new Date(date.value) - Date.now()) / DAY_MS) : 0;
  slider.addEventListener("input", () => {
    const day = new Date(Date.now() + Number(slider.value) * DAY_MS).toISOString().slice(0, 10);
    date.value = Number(slider.value) === 0 ? "" : day;
    date.dispatchEvent(new Event("input", { bubbles: true }));
  });
  date.after(slider);
}

// --- shortcuts -------------------------------------------------------------------------------------------------

function step(by) {
  const items = [...document.querySelectorAll("#results .list > li, .card")];
  if (!items.length) return;
  const at = items.findIndex((item) => item.classList.contains("chosen"));
  const next = items[Math.min(Math.max(at + by, 0), items.length - 1)];
  for (const item of items) item.classList.toggle("chosen", item === next);
  (next.matches(".card") ? next : next.querySelector("a")).focus();
}

document.addEventListener("keydown", (event) => {
  const isWriting = event.target.matches("input, textarea, select");
  if (event.target.matches("[data-submit]") && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.target.form.requestSubmit();
  }
  if (isWriting || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.getElementById("q");
  if (event.key === "/" && search) { event.preventDefault(); search.focus(); }
  // Shortcuts act on the selected card, or else on the first.
  const card = document.querySelector(".card.chosen") ?? document.querySelector(".card");
  card?.querySelector(`[data-key="${CSS.escape(event.key)}"]`)?.click();
  if (event.key === "j") step(1);
  if (event.key === "k") step(-1);
  if (event.key === "?") document.getElementById("keys-help").showModal();
});

// --- progress of an import -----------------------------------------------------------------------------------

const steps = document.querySelector(".steps");
if (steps) steps.querySelector(".last")?.scrollIntoView({ block: "nearest" });

localise(document);
