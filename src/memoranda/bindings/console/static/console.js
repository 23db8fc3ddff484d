// What moves on the pages: searching while one types, what is new, keys, times in the reader's zone, copying.
// Every page can be read and used without it.

const live = document.querySelector("form[data-live]");
const offline = document.querySelector(".offline");
const LIVE_MS = 4000;
const TYPING_MS = 120;
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

// --- searching while one types, and what is new -----------------------------------------------------------

let asking = null;

function address() {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(live)) if (value) fields.append(name, value);
  const query = fields.toString();
  return live.getAttribute("action") + (query ? `?${query}` : "");
}

async function refresh(url, { remember }) {
  asking?.abort();
  const mine = (asking = new AbortController());
  let text;
  try {
    // What a page asks by itself does not keep its session alive.
    const headers = { accept: "text/html", ...(remember ? {} : LIVE) };
    const answer = await fetch(url, { signal: mine.signal, headers });
    if (answer.redirected) { location.href = answer.url; return; }
    text = await answer.text();
    offline.hidden = true;
  } catch (error) {
    if (error.name !== "AbortError") offline.hidden = false;
    return;
  }
  const made = new DOMParser().parseFromString(text, "text/html").getElementById(live.dataset.live);
  const shown = document.getElementById(live.dataset.live);
  if (!made || !shown) return;
  if (remember) history.replaceState(null, "", url);
  if (made.textContent === shown.textContent) return;
  const chosen = new Set([...shown.querySelectorAll("input[name=id]:checked")].map((box) => box.value));
  shown.replaceChildren(...made.childNodes);
  for (const box of shown.querySelectorAll("input[name=id]")) box.checked = chosen.has(box.value);
  localise(shown);
}

if (live) {
  let typing = 0;
  live.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => refresh(address(), { remember: true }), TYPING_MS);
  });
  live.addEventListener("submit", (event) => {
    event.preventDefault();
    refresh(address(), { remember: true });
  });
  let seen = null;
  setInterval(async () => {
    const isReading = document.activeElement?.closest("#results") || document.querySelector("#results input:checked");
    if (document.hidden || isReading) return;
    try {
      const answer = await fetch(`${live.getAttribute("action")}latest`, { headers: LIVE });
      if (answer.redirected) { location.reload(); return; }
      const { seq } = await answer.json();
      offline.hidden = true;
      if (seen === seq) return;
      await refresh(location.pathname + location.search, { remember: false });
      seen = seq;
    } catch { offline.hidden = false; }
  }, LIVE_MS);
}

// --- a query is checked while one writes it, and what may come next is offered ---------------------------------

const editor = document.querySelector("[data-check]");
if (editor) {
  const said = document.getElementById("checked");
  const offered = document.getElementById("completions");
  let writing = 0;
  let at = -1;

  const options = () => [...offered.children];
  const close = () => { offered.hidden = true; offered.replaceChildren(); editor.removeAttribute("aria-activedescendant"); at = -1; };
  function choose(next) {
    const all = options();
    at = (next + all.length) % all.length;
    all.forEach((option, place) => option.setAttribute("aria-selected", String(place === at)));
    editor.setAttribute("aria-activedescendant", all[at].id);
    all[at].scrollIntoView({ block: "nearest" });
  }
  function take(option) {
    const before = editor.value.slice(0, editor.selectionStart);
    const rest = editor.value.slice(editor.selectionEnd);
    const start = before.slice(0, before.length - Number(option.dataset.typed));
    editor.value = `${start}${option.textContent} ${rest}`;
    editor.selectionStart = editor.selectionEnd = start.length + option.textContent.length + 1;
    close();
    editor.focus();
    ask();
  }
  function offer(word, words) {
    close();
    offered.replaceChildren(...words.map((text, place) => {
      const option = Object.assign(document.createElement("li"), { id: `completion-${place}`, textContent: text });
      option.setAttribute("role", "option");
      option.dataset.typed = word.length;
      return option;
    }));
    offered.hidden = !words.length;
    if (words.length) choose(0);
  }
  async function ask() {
    const before = editor.value.slice(0, editor.selectionStart);
    try {
      const fields = new URLSearchParams({ query: editor.value, before });
      const answer = await fetch(`${editor.dataset.check}?${fields}`, { headers: LIVE });
      const told = await answer.json();
      said.textContent = !editor.value.trim() ? "" : told.valid ? document.body.dataset.canRun : told.error.message;
      if (document.activeElement === editor) offer(told.word, told.completions);
    } catch { said.textContent = ""; }
  }
  editor.addEventListener("input", () => { clearTimeout(writing); writing = setTimeout(ask, TYPING_MS); });
  editor.addEventListener("blur", () => setTimeout(close, 200));
  offered.addEventListener("mousedown", (event) => { event.preventDefault(); take(event.target.closest("li")); });
  editor.addEventListener("keydown", (event) => {
    if (offered.hidden) return;
    if (event.key === "Escape") close();
    else if (event.key === "Tab" && !event.shiftKey) take(options()[at]);
    else if (event.key === "ArrowDown") choose(at + 1);
    else if (event.key === "ArrowUp") choose(at - 1);
    else return;
    event.preventDefault();
  });
}

// --- days by a slider -----------------------------------------------------------------------------------------

const DAY_MS = 86400000;
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

// --- keys -------------------------------------------------------------------------------------------------

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
  // On the card that was gone to, or else on the first.
  const card = document.querySelector(".card.chosen") ?? document.querySelector(".card");
  card?.querySelector(`[data-key="${CSS.escape(event.key)}"]`)?.click();
  if (event.key === "j") step(1);
  if (event.key === "k") step(-1);
  if (event.key === "?") document.getElementById("keys-help").showModal();
});

// A page that is sent as far as it has come shows the last step alone; where it ended, that is read out.

const steps = document.querySelector(".steps");
if (steps) steps.querySelector(".last")?.scrollIntoView({ block: "nearest" });

localise(document);
