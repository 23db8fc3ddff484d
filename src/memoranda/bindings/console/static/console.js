// The script of the console: search while typing, new memories, the command palette, shortcuts, local times, buttons that
// copy, and forms that keep what was typed. Every page works without it.

const root = document.body.dataset.root;
const live = document.querySelector("form[data-live]");
const offline = document.querySelector(".offline");
// Milliseconds from the last key to a search.
const TYPING_MS = 120;
// Marks requests that no person started; they do not prolong the session.
const LIVE = { "x-memoranda-live": "1" };

document.documentElement.classList.add("scripted");

function localise(part) {
  for (const time of part.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.getTime())) time.title = moment.toLocaleString();
  }
  for (const button of part.querySelectorAll("button[data-copy-text]")) {
    button.hidden = !navigator.clipboard;
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy-text]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copyText);
  (button.querySelector("span") ?? button).textContent = document.body.dataset.copied;
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
  countSelected();
  localise(current);
}

if (live) {
  let typing = 0;
  // Searches that have begun, and whether the last one is waiting for its results: a new list must not replace them.
  let searchCount = 0;
  let isSearching = false;
  const search = async () => {
    const number = ++searchCount;
    isSearching = true;
    const results = document.getElementById(live.dataset.live);
    results?.setAttribute("aria-busy", "true");
    await refresh(searchUrl(), { remember: true });
    if (number !== searchCount) return;
    isSearching = false;
    results?.removeAttribute("aria-busy");
    catchUp();
  };
  live.addEventListener("input", () => {
    clearTimeout(typing);
    isSearching = true;
    typing = setTimeout(search, TYPING_MS);
  });
  live.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    search();
  });
  // Each write of an agent is announced; the list is loaded again unless somebody is reading or choosing in it.
  let seenSeq = Number(live.dataset.seq);
  let isBehind = false;
  const isReading = () => document.activeElement?.closest("#results") || document.querySelector("#results input:checked, #results textarea");
  const catchUp = () => {
    if (!isBehind || isSearching || document.hidden || isReading()) return;
    isBehind = false;
    refresh(location.pathname + location.search, { remember: false });
  };
  const changes = new EventSource(`${root}/events`);
  changes.addEventListener("change", (event) => {
    const { seq } = JSON.parse(event.data);
    offline.hidden = true;
    isBehind ||= seq !== seenSeq;
    seenSeq = seq;
    catchUp();
  });
  changes.addEventListener("error", async () => {
    // The browser connects again by itself, unless the stream was refused, as after the end of a session.
    if (changes.readyState !== EventSource.CLOSED) { offline.hidden = false; return; }
    const answer = await fetch(`${root}/latest`, { headers: LIVE }).catch(() => null);
    if (answer?.redirected) location.reload();
  });
  changes.addEventListener("open", () => { offline.hidden = true; });
  document.addEventListener("visibilitychange", catchUp);
  document.addEventListener("focusout", () => setTimeout(catchUp));
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
for (const date of document.querySelectorAll(".dates input[type=date]")) {
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

// --- several memories ------------------------------------------------------------------------------------------

const several = document.querySelector("#results [data-count]")?.textContent;

function countSelected() {
  const label = document.querySelector("#results [data-count]");
  if (!label) return;
  const count = document.querySelectorAll("#results input[name=id]:checked").length;
  label.textContent = count ? document.body.dataset.selected.replace("{n}", count) : several;
}

document.addEventListener("change", (event) => {
  if (event.target.matches("#results input[name=id]")) countSelected();
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});

// --- forms that keep what was typed ----------------------------------------------------------------------------

// Before a form leaves the page, the session is looked at: if it ended, or the server is away, the form stays as it is.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form[data-keep]") || form.dataset.checked) return;
  event.preventDefault();
  if (form.dataset.checking) return;
  form.dataset.checking = "yes";
  const banner = document.querySelector(".unsent");
  let message = "";
  try {
    const answer = await fetch(`${root}/latest`, { headers: LIVE });
    if (answer.redirected || answer.status === 401) message = document.body.dataset.ended;
    // A session that began in another tab has another token.
    else form.elements.token.value = (await answer.json()).token;
  } catch { message = document.body.dataset.unsent; }
  banner.hidden = !message;
  banner.querySelector("p").textContent = message;
  delete form.dataset.checking;
  if (message) { banner.scrollIntoView({ block: "nearest" }); return; }
  form.dataset.checked = "yes";
  form.requestSubmit(event.submitter);
  delete form.dataset.checked;
});

// A form is sent once, however slow the server is: a second click would find the memory changed by the first.
document.addEventListener("submit", (event) => {
  const form = event.target;
  // The page of a download stays.
  const action = event.submitter?.getAttribute("formaction") ?? form.getAttribute("action") ?? "";
  if (event.defaultPrevented || form.method !== "post" || action.endsWith("/export")) return;
  if (form.dataset.sent) { event.preventDefault(); return; }
  form.dataset.sent = "yes";
  event.submitter?.setAttribute("aria-busy", "true");
});
// The browser may show the page again as it was left.
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  for (const button of document.querySelectorAll("button[aria-busy]")) button.removeAttribute("aria-busy");
});

// --- command palette -------------------------------------------------------------------------------------------

const palette = document.getElementById("palette");
if (palette) {
  const input = palette.querySelector("input");
  const found = palette.querySelector(".palette-memories");
  const icons = document.body.dataset.icons;
  let finding = 0;
  let request = null;

  // The arrow keys move the real focus, so that screen readers follow.
  const moveFocus = (step) => {
    const stops = [input, ...palette.querySelectorAll("li:not([hidden]) a")];
    stops[(stops.indexOf(document.activeElement) + step + stops.length) % stops.length].focus();
  };
  const filterPages = (query) => {
    const needle = query.trim().toLowerCase();
    for (const item of palette.querySelectorAll(".palette-pages li, .palette-actions li")) {
      item.hidden = !item.textContent.toLowerCase().includes(needle);
    }
  };
  const drawIcon = (look) => {
    const frame = Object.assign(document.createElement("span"), { className: `agent-icon from-${look}` });
    const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    icon.setAttribute("class", "icon");
    icon.setAttribute("viewBox", "0 0 24 24");
    icon.setAttribute("aria-hidden", "true");
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    use.setAttribute("href", `${icons}#i-a-${look}`);
    icon.append(use);
    frame.append(icon);
    return frame;
  };
  const find = async (query) => {
    request?.abort();
    request = new AbortController();
    if (!query.trim()) { found.replaceChildren(); found.parentElement.hidden = true; return; }
    try {
      const fields = new URLSearchParams({ q: query });
      const answer = await fetch(`${found.dataset.find}?${fields}`, { signal: request.signal, headers: LIVE });
      const { memories } = await answer.json();
      found.replaceChildren(...memories.map(({ id, text, look }) => {
        const link = Object.assign(document.createElement("a"), { href: found.dataset.memory + encodeURIComponent(id) });
        link.append(drawIcon(look), Object.assign(document.createElement("bdi"), { className: "stored", textContent: text }));
        const item = document.createElement("li");
        item.append(link);
        return item;
      }));
      found.parentElement.hidden = !memories.length;
    } catch { /* The pages can be reached all the same. */ }
  };
  const open = () => { if (!palette.open) { palette.showModal(); input.select(); } };
  document.querySelector("[data-palette]")?.addEventListener("click", (event) => { event.preventDefault(); open(); });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input, textarea, select");
    const isShortcut = event.key === "k" && (event.ctrlKey || event.metaKey);
    if (isShortcut || (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey)) {
      event.preventDefault();
      open();
    }
  });
  palette.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      moveFocus(event.key === "ArrowDown" ? 1 : -1);
    }
  });
  palette.addEventListener("click", (event) => { if (event.target === palette) palette.close(); });
  input.addEventListener("input", () => {
    filterPages(input.value);
    clearTimeout(finding);
    finding = setTimeout(() => find(input.value), TYPING_MS);
  });
}

// A link to the form of a correction opens it. The browser moves the focus to the target of a link at the end.
if (location.hash === "#edit") {
  const form = document.getElementById("edit");
  form?.closest("details")?.setAttribute("open", "");
  window.addEventListener("load", () => setTimeout(() => form?.querySelector("textarea")?.focus()));
}

// --- files for an import ---------------------------------------------------------------------------------------

const importing = document.getElementById("import");
if (importing) {
  const drop = importing.querySelector("[data-drop]");
  const input = importing.querySelector("input[type=file]");
  const list = importing.querySelector("[data-files]");
  const sending = importing.querySelector(".sending");
  // Bytes of a part: proxies limit a request, and a part that failed is sent again. Smaller files go with the form.
  const PART_BYTES = 4 * 1024 * 1024;
  // Attempts for each part, and milliseconds between them.
  const ATTEMPTS = 5;
  const PAUSE_MS = 1000;

  const size = (bytes) => (bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);
  const showFiles = () => {
    list.hidden = !input.files.length;
    list.replaceChildren(...[...input.files].map((file) => {
      const item = document.createElement("li");
      item.append(
        Object.assign(document.createElement("bdi"), { textContent: file.name }),
        Object.assign(document.createElement("span"), { className: "n", textContent: size(file.size) }),
      );
      return item;
    }));
  };
  input.addEventListener("change", showFiles);
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  }
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files.length) { input.files = event.dataTransfer.files; showFiles(); }
  });

  async function sendPart(file, upload, offset) {
    const fields = new FormData();
    fields.set("token", importing.elements.token.value);
    fields.set("upload", upload);
    fields.set("offset", String(offset));
    fields.set("part", file.slice(offset, offset + PART_BYTES), file.name);
    for (let attempt = 1; ; attempt++) {
      const answer = await fetch(importing.dataset.parts, { method: "POST", body: fields }).catch(() => null);
      if (answer?.ok && !answer.redirected) return (await answer.json()).size;
      if (answer || attempt === ATTEMPTS) throw new Error(String(answer?.status ?? "no answer"));
      await new Promise((done) => setTimeout(done, PAUSE_MS * attempt));
    }
  }
  async function sendFile(file, report) {
    const upload = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    for (let offset = 0; offset < file.size; report(offset)) {
      const next = await sendPart(file, upload, offset);
      if (next <= offset) throw new Error("the parts do not fit");
      offset = next;
    }
    return upload;
  }
  importing.addEventListener("submit", async (event) => {
    const files = [...input.files];
    const total = files.reduce((sum, file) => sum + file.size, 0);
    if (total <= PART_BYTES) return;
    event.preventDefault();
    const [bar, label] = sending.children;
    const button = importing.querySelector("button");
    sending.hidden = false;
    button.disabled = true;
    try {
      const uploads = [];
      let sent = 0;
      for (const file of files) {
        uploads.push(await sendFile(file, (bytes) => {
          bar.value = (100 * (sent + bytes)) / total;
          label.textContent = importing.dataset.sending.replace("{done}", size(sent + bytes)).replace("{total}", size(total));
        }));
        sent += file.size;
      }
      for (const upload of uploads) {
        importing.append(Object.assign(document.createElement("input"), { type: "hidden", name: "upload", value: upload }));
      }
      input.disabled = true;
      importing.submit();
    } catch {
      label.textContent = importing.dataset.failed;
      button.disabled = false;
    }
  });
}

// --- the scan of Review ----------------------------------------------------------------------------------------

// Milliseconds until the page is loaded again while a scan runs.
const SCAN_MS = 1500;
if (document.querySelector("[data-scanning]")) {
  setTimeout(() => {
    if (!document.querySelector("details[open] textarea, .card.chosen") && !document.activeElement?.closest(".card")) location.reload();
  }, SCAN_MS);
}

// --- shortcuts -------------------------------------------------------------------------------------------------

function step(by) {
  const items = [...document.querySelectorAll("#results .cards > li, .card")];
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
  if (isWriting || event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem("keys") === "off") return;
  if (document.querySelector("dialog[open]")) return;
  // Shortcuts act on the selected card, or else on the first.
  const card = document.querySelector(".card.chosen") ?? document.querySelector(".card");
  card?.querySelector(`[data-key="${CSS.escape(event.key)}"]`)?.click();
  if (event.key === "j") step(1);
  if (event.key === "k") step(-1);
  if (event.key === "?") document.getElementById("keys-help")?.showModal();
});

// Keys of a single letter can be turned off, for people who dictate.
const keysOff = document.getElementById("keys-off");
if (keysOff) {
  keysOff.checked = localStorage.getItem("keys") === "off";
  keysOff.addEventListener("change", () => localStorage.setItem("keys", keysOff.checked ? "off" : "on"));
}

// --- progress of an import -----------------------------------------------------------------------------------

const steps = document.querySelector(".steps");
if (steps) steps.querySelector(".last")?.scrollIntoView({ block: "nearest" });

localise(document);
