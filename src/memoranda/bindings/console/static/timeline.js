// The timeline: a canvas for the picture, HTML for words and lists. Texts come from the page.
const DAY = 86400000, $ = id => document.getElementById(id), app = $('explore');
const TEXTS = JSON.parse(app.dataset.texts), lang = document.documentElement.lang;
// A text with its values; one that depends on a number has two forms.
const t_ = (name, values = {}) => { const text = typeof TEXTS[name] === 'string' ? TEXTS[name] : TEXTS[name][values.n === 1 ? 'one' : 'other']; return text.replace(/\{(\w+)\}/g, (whole, key) => (key in values ? (typeof values[key] === 'number' ? values[key].toLocaleString(lang) : values[key]) : whole)); };
const LANES = 8, raw = await load(location.search);
async function load(query) {
  try {
    const answer = await fetch(app.dataset.source + query);
    if (answer.redirected) { location.reload(); return { items: [], months: {}, total: 0 }; }
    return await answer.json();
  } catch { $('said').textContent = t_('failed'); return { items: [], months: {}, total: 0 }; }
}
if (!raw.items.length) { app.hidden = true; $('nothing').hidden = false; throw new Error('nothing'); }
app.hidden = false;
const A = [], known = new Set(), data = { lanes: { project: [], person: [] } };
// The largest projects and persons have lanes of their own.
function nameLanes() {
  for (const by of ['project', 'person']) {
    const counts = new Map();
    for (const m of A) counts.set(m.names[by], (counts.get(m.names[by]) || 0) + 1);
    const names = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(p => p[0]), own = names.slice(0, LANES), rest = names.length > LANES;
    data.lanes[by] = own.map(name => name || t_(by === 'project' ? 'no_project' : 'nobody'));
    if (rest) data.lanes[by].push(t_('other'));
    const at = new Map(own.map((name, i) => [name, i]));
    for (const m of A) m[by] = at.has(m.names[by]) ? at.get(m.names[by]) : LANES;
  }
}
// Add memories in the order of time; return how many are new.
function add(items) {
  const before = A.length;
  for (const m of items) {
    if (known.has(m.id)) continue;
    known.add(m.id);
    A.push({ id: m.id, names: { project: m.project, person: m.person }, from: Date.parse(m.from), to: m.to === null ? null : Date.parse(m.to), known: Date.parse(m.known), kind: m.kind, weight: m.weight, agent: m.agent, text: m.text });
  }
  A.sort((a, b) => a.from - b.from || (a.id < b.id ? -1 : 1));
  nameLanes();
  return A.length - before;
}
add(raw.items);
const T1 = Date.now(), T0 = Math.min(T1 - 30 * DAY, A[0].from), LAST = T1 + Math.max(2 * DAY, (T1 - T0) * 0.02), FIRST = T0 - Math.max(DAY, (T1 - T0) * 0.01);
const view = $('view'), ctx = view.getContext('2d', { alpha: false }), strip = $('strip'), sctx = strip.getContext('2d', { alpha: false }), tip = $('tip'), panel = $('panel'), list = $('list'), live = $('live');
const still = matchMedia('(prefers-reduced-motion: reduce)'), darkScheme = matchMedia('(prefers-color-scheme: dark)');
const FONT = 'system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif', TEXT = `12px ${FONT}`;
const S = { by: 'project', a: FIRST, b: LAST, w: 0, h: 0, top: 30, gut: 150, y: 0, big: -1, sel: -1, hot: -1, lane: 0, mode: 'off', cur: Math.max(T0, T1 - Math.min(400 * DAY, (T1 - T0) / 2)), as: 'timeline' };
const timing = window.explore = { S, A, draws: [], ready: false };
const num = n => n.toLocaleString(lang);
const D = (o => t => o.format(t));
const day = D(new Intl.DateTimeFormat(lang === 'en' ? 'en-GB' : lang, { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' }));
const clock = D(new Intl.DateTimeFormat(lang === 'en' ? 'en-GB' : lang, { hour: '2-digit', minute: '2-digit', timeZone: 'UTC' }));
const mon = D(new Intl.DateTimeFormat(lang, { month: 'short', timeZone: 'UTC' }));
const monthYear = D(new Intl.DateTimeFormat(lang, { month: 'long', year: 'numeric', timeZone: 'UTC' }));
const weekday = D(new Intl.DateTimeFormat(lang === 'en' ? 'en-GB' : lang, { weekday: 'short', day: 'numeric', month: 'short', timeZone: 'UTC' }));
function el(tag, props = {}, ...kids) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props)) { if (k.startsWith('on')) e.addEventListener(k.slice(2), v); else if (k in e) e[k] = v; else e.setAttribute(k, v); }
  e.append(...kids);
  return e;
}

// ---- lanes, counts per day -------------------------------------------------
let lanes = [], peak = 1;
const days = Math.ceil((LAST - FIRST) / DAY) + 1, dayOf = t => Math.max(0, Math.min(days - 1, Math.floor((t - FIRST) / DAY)));
const all = new Float32Array(days);
// The counts of the store say how many there are; without them, the memories that are here.
const MONTH = 30.4 * DAY, months = Object.entries(raw.months), isWhole = raw.total <= A.length;
if (isWhole) for (const m of A) all[dayOf(m.from)]++;
else for (const [start, count] of months) for (let d = 0; d < 30; d++) all[dayOf(Date.parse(start) + d * DAY)] += count / 30;
const end = m => (m.to === null ? LAST + 400 * DAY : m.to);
function makeLanes() {
  peak = 1;
  lanes = data.lanes[S.by].map((name, i) => ({ name, i, items: [], days: new Float32Array(days), sum: null, packs: new Map() }));
  A.forEach((m, k) => { const l = lanes[m[S.by]]; l.items.push(k); l.days[dayOf(m.from)]++; });
  for (const l of lanes) {
    l.sum = new Float32Array(days + 1);
    for (let d = 0; d < days; d++) l.sum[d + 1] = l.sum[d] + l.days[d];
    for (let d = 10; d < days; d++) peak = Math.max(peak, (l.sum[d] - l.sum[d - 10]) / 10);
    l.rank = l.items.slice().sort((p, q) => A[q].weight - A[p].weight || p - q);
  }
  S.lane = Math.min(S.lane, lanes.length - 1);
}

// ---- which memory stands in which row ----------------------------------------
// Done once for each lane, zoom step and height: the weightiest choose first, so
// rows stay where they are while one pans. Row -1: only counted in the density.
const CELLS = 24000, ROW = 17;
ctx.font = TEXT;
const CW = ctx.measureText('Ask Priya before changing the cache, said Omar.').width / 47;
let spent = 0;
function pack(l, level, rows) {
  const key = level * 64 + rows;
  let p = l.packs.get(key);
  if (p) { l.last = p; return p; }
  if (spent > 5 && l.last && l.last.rows === rows) { paint(); return l.last; } // not enough time in this frame
  const t0 = performance.now(), ppd = 2 ** (level / 2), span = LAST - FIRST, px = Math.max(4, span / DAY * ppd / CELLS), cols = Math.ceil(span / DAY * ppd / px) + 80;
  const grid = Array.from({ length: rows }, () => new Uint8Array(cols)), out = [], row = [], word = [];
  const fits = (from, to, r) => { const g = grid[r]; if (g[from] || g[to]) return false; for (let c = from + 1; c < to; c++) if (g[c]) return false; return true; };
  let tries = 0;
  // From afar only facts are drawn one by one; nearer, both kinds get their rows.
  const far = ppd < 1.3, cut = far ? rows : Math.max(1, Math.floor(rows / 2));
  for (const k of l.rank) {
    const m = A[k], point = m.to === m.from, x0 = (m.from - FIRST) / DAY * ppd, x1 = (Math.min(LAST, end(m)) - FIRST) / DAY * ppd;
    const words = 22 + Math.min(34, m.text.length) * CW, wide = x1 - x0;
    if (point ? far : wide < (far ? 58 : 5)) continue;
    const choices = point ? (ppd > 1.5 ? [words, 9] : [9]) : wide > 46 ? [wide + 3] : ppd > 3 ? [wide + words, wide + 3] : [wide + 3];
    let ok = false;
    for (let q = 0; q < choices.length && !ok; q++) {
      const c0 = Math.floor(x0 / px), c1 = Math.min(cols - 1, Math.floor((x0 + choices[q]) / px));
      for (let r = point && rows > 1 ? cut : 0, e = point || rows < 2 ? rows : cut; r < e; r++) if (fits(c0, c1, r)) { grid[r].fill(1, c0, c1 + 1); out.push(k); row.push(r); word.push(point ? choices[q] > 9 : wide > 46 ? 1 : q === 0 && choices.length > 1 ? 2 : 0); ok = true; break; }
    }
    if (!ok && ++tries > 2500) break;
  }
  p = { out, row, word, rows };
  l.packs.set(key, p); l.last = p;
  if (l.packs.size > 24) l.packs.delete(l.packs.keys().next().value);
  spent += performance.now() - t0;
  return p;
}

// Looking back: the weightiest facts that were true on that day, one to a row.
function thenTrue(l, rows) {
  const all = l.rank.filter(k => A[k].to !== A[k].from && isTrue(A[k], S.cur)), out = all.slice(0, rows);
  l.yes = all.length;
  return { out, row: out.map((_, i) => i), word: out.map(k => ((end(A[k]) - A[k].from) / (S.b - S.a) * (S.w - S.gut) < 70 ? 2 : 1)), rows };
}

// ---- drawing -------------------------------------------------------------------
let C = {}, dpr = 1, due = false, boxes = [];
function colours() {
  // A probe resolves the colours of the scheme.
  const probe = document.createElement('span');
  app.append(probe);
  for (const k of ['ink', 'soft', 'line', 'stage', 'lane', 'accent', 'tint', 'fact', 'preference', 'event', 'on', 'then', 'card']) { probe.style.color = `var(--${k})`; C[k] = getComputedStyle(probe).color; }
  probe.remove();
}
function paint() { if (!due) { due = true; requestAnimationFrame(() => { due = false; draw(); }); } }
const small = () => S.w < 640;
const X = t => S.gut + (t - S.a) / (S.b - S.a) * (S.w - S.gut), T = x => S.a + (x - S.gut) / (S.w - S.gut) * (S.b - S.a);
const STEPS = [[3600000, 'h'], [3 * 3600000, 'h'], [6 * 3600000, 'h'], [DAY, 'd'], [2 * DAY, 'd'], [7 * DAY, 'w'], [30.4 * DAY, 'm', 1], [91.3 * DAY, 'm', 3], [365 * DAY, 'y', 12]];
function ticks(gap, from, to, perPx) {
  const step = STEPS.find(s => s[0] / perPx >= gap) || STEPS[STEPS.length - 1], out = [];
  if (step[1] === 'm' || step[1] === 'y') {
    const d = new Date(from);
    for (let m = Math.floor(d.getUTCMonth() / step[2]) * step[2], y = d.getUTCFullYear(); ; m += step[2]) { const t = Date.UTC(y, m, 1); if (t > to) break; const z = new Date(t); out.push([t, z.getUTCMonth() === 0 ? String(z.getUTCFullYear()) : mon(t), z.getUTCMonth() === 0]); }
  } else {
    const origin = step[1] === 'w' ? Date.UTC(2023, 0, 2) : 0;
    for (let t = origin + Math.floor((from - origin) / step[0]) * step[0]; t <= to; t += step[0]) { const first = t % DAY === 0; out.push([t, step[1] === 'h' && !first ? clock(t) : weekday(t), step[1] === 'h' ? first : new Date(t).getUTCDate() <= (step[1] === 'w' ? 7 : 1)]); }
  }
  return out;
}
const isTrue = (m, t) => (m.to === m.from ? Math.abs(m.from - t) < DAY / 2 : m.from <= t && end(m) > t);
function clip(text, room) {
  if (room < 24) return '';
  const most = Math.floor(room / CW / 1.1);
  return text.length <= most ? text : most < 6 ? '' : text.slice(0, most - 1) + '…';
}
function laneBoxes() {
  const room = S.h - S.top, n = lanes.length, least = small() ? 74 : 54;
  let hs = lanes.map(() => Math.max(least, room / n));
  if (S.big >= 0) { const rest = Math.max(26, Math.min(34, room * 0.45 / (n - 1))); hs = lanes.map((_, i) => (i === S.big ? Math.max(160, room - rest * (n - 1)) : rest)); }
  const total = hs.reduce((p, q) => p + q);
  S.y = Math.max(0, Math.min(S.y, total - room));
  let y = S.top - S.y;
  return hs.map(h => { const b = { y, h }; y += h; return b; });
}
function draw() {
  const t0 = performance.now(), { w, h, top, gut } = S, ppd = (w - gut) / ((S.b - S.a) / DAY), level = Math.floor(Math.log2(ppd) * 2);
  spent = 0;
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  ctx.globalAlpha = 1; ctx.fillStyle = C.stage; ctx.fillRect(0, 0, w, h);
  boxes = []; S.lanesAt = laneBoxes();
  const marks = ticks(78, S.a, S.b, (S.b - S.a) / (w - gut));
  // Weekends, when days are wide enough to matter.
  if (ppd > 14 && ppd < 400) { ctx.fillStyle = C.lane; for (let t = Math.floor(S.a / DAY) * DAY; t < S.b; t += DAY) { const q = new Date(t).getUTCDay(); if (q === 0 || q === 6) ctx.fillRect(X(t), top, ppd, h - top); } }
  ctx.fillStyle = C.line;
  for (const [t, , strong] of marks) { const x = Math.round(X(t)); if (x >= gut) { ctx.globalAlpha = strong ? 1 : 0.5; ctx.fillRect(x, top - 6, 1, h - top + 6); } }
  ctx.globalAlpha = 1;
  ctx.textBaseline = 'middle';
  const look = S.mode !== 'off', cx = X(S.cur), labels = [];
  lanes.forEach((l, li) => {
    const { y, h: lh } = S.lanesAt[li];
    if (y > h || y + lh < top) return;
    const head = small() ? 18 : 4, thin = lh < 40, rows = thin ? 1 : Math.max(1, Math.floor((lh - head - 2) / ROW));
    // Density: how many memories begin here, behind everything.
    if (ppd < 40) {
      const step = Math.max(4, ppd), floor = y + lh - 1;
      ctx.beginPath(); ctx.moveTo(gut, floor);
      const aDay = (S.a - FIRST) / DAY;
      for (let x = gut; x <= w + step; x += step) {
        const d0 = Math.max(0, Math.min(days, aDay + (x - gut - step) / ppd)), d1 = Math.max(0, Math.min(days, aDay + (x - gut + step) / ppd));
        const at = d => { const i = Math.floor(d); return l.sum[i] + (i < days ? (d - i) * l.days[i] : 0); };
        ctx.lineTo(x, floor - Math.min(1, Math.sqrt((at(d1) - at(d0)) / Math.max(0.01, d1 - d0) / peak)) * (lh - 5));
      }
      ctx.lineTo(w, floor); ctx.closePath();
      ctx.globalAlpha = (look ? 0.5 : 1) * (ppd < 1.3 ? 0.3 : 0.13); ctx.fillStyle = C.event; ctx.fill(); ctx.globalAlpha = 1;
    }
    const p = S.mode === 'true' ? thenTrue(l, rows) : pack(l, level, rows);
    let seen = 0;
    for (let q = 0; q < p.out.length; q++) {
      const k = p.out[q], m = A[k], e = end(m);
      if (m.from > S.b || (e < S.a && !(p.word[q] && m.from > S.a - 260 / ppd * DAY))) continue;
      const x = X(m.from), point = e === m.from, ry = y + head + (thin ? 4 : p.row[q] * ROW) + 1, bh = ROW - 3;
      let alpha = 1, hollow = false;
      if (m.from >= S.a || S.mode === 'true') seen++;
      if (look) {
        const now = isTrue(m, S.cur), knew = m.known <= S.cur;
        if (S.mode === 'true') hollow = now && !knew; else { alpha = knew ? 1 : 0.42; hollow = !knew; }
      }
      const c = C[m.kind];
      ctx.globalAlpha = alpha;
      if (point) {
        if (x < gut - 4) continue;
        ctx.beginPath(); ctx.arc(x + 1, ry + bh / 2, 4, 0, 7);
        if (hollow) { ctx.strokeStyle = c; ctx.lineWidth = 1.5; ctx.stroke(); } else { ctx.fillStyle = c; ctx.fill(); }
        const tw = p.word[q] ? 16 + Math.min(34, m.text.length) * CW : 9;
        if (p.word[q] && alpha > 0.2) labels.push([m.text.length > 34 ? m.text.slice(0, 33) + '…' : m.text, x + 9, ry + bh / 2 + 1, C.ink, alpha]);
        boxes.push([k, x - 5, ry, tw, bh]);
      } else {
        const b0 = Math.max(gut - 8, x), b1 = Math.min(w + 8, m.to === null ? X(T1) + 7 : X(e));
        if (b1 < gut) continue;
        ctx.beginPath();
        if (m.to === null) { const s = Math.max(b0, b1 - 7); ctx.moveTo(b0, ry); ctx.lineTo(s, ry); ctx.lineTo(b1, ry + bh / 2); ctx.lineTo(s, ry + bh); ctx.lineTo(b0, ry + bh); ctx.closePath(); } else ctx.roundRect(b0, ry, Math.max(4, b1 - b0 - 1), bh, 4);
        if (hollow) { ctx.strokeStyle = c; ctx.lineWidth = 1.5; ctx.setLineDash([4, 3]); ctx.stroke(); ctx.setLineDash([]); } else { ctx.fillStyle = c; ctx.globalAlpha = alpha * (m.to === null ? 1 : 0.88); ctx.fill(); }
        const lx = Math.max(gut + 4, b0 + 6), inside = b1 - lx - 4;
        if (alpha < 0.2) { /* no words on what is dimmed */ } else if (p.word[q] === 2) labels.push([m.text.length > 34 ? m.text.slice(0, 33) + '…' : m.text, b1 + 4, ry + bh / 2 + 1, C.ink, alpha]);
        else { const t = clip(m.text, inside); if (t) labels.push([t, lx, ry + bh / 2 + 1, hollow ? C.ink : C.on, alpha < 1 && !hollow ? alpha + 0.25 : 1]); }
        boxes.push([k, b0, ry, Math.max(6, b1 - b0), bh]);
      }
      if (k === S.sel || k === S.hot) { const b = boxes[boxes.length - 1]; ctx.globalAlpha = 1; ctx.strokeStyle = k === S.sel ? C.accent : C.ink; ctx.lineWidth = 2; ctx.beginPath(); ctx.roundRect(b[1] - 2, ry - 2, Math.min(b[3] + 3, w), bh + 4, 6); ctx.stroke(); }
    }
    l.seen = seen;
    ctx.globalAlpha = 1; ctx.fillStyle = C.line; ctx.fillRect(0, Math.round(y + lh) - 1, w, 1);
  });
  ctx.font = TEXT;
  for (const [t, x, y, c, a] of labels) { ctx.globalAlpha = a; ctx.fillStyle = c; ctx.fillText(t, x, y); }
  ctx.globalAlpha = 1;
  // Today.
  const nx = X(T1);
  if (nx > gut && nx < w) { ctx.fillStyle = C.soft; ctx.fillRect(nx, top, 1, h - top); }
  // The gutter with the names of the lanes.
  if (gut) { ctx.fillStyle = C.stage; ctx.fillRect(0, top, gut - 1, h); ctx.fillStyle = C.line; ctx.fillRect(gut - 1, 0, 1, h); }
  lanes.forEach((l, li) => {
    const { y, h: lh } = S.lanesAt[li];
    if (y > h || y + lh < top) return;
    if (li === S.lane && document.activeElement === view) { ctx.fillStyle = C.tint; ctx.fillRect(0, y, gut - 1, lh - 1); }
    const d0 = dayOf(S.a), d1 = dayOf(S.b) + 1, n = ppd > 8 ? between(l) : Math.round(l.sum[Math.min(days, d1)] - l.sum[d0]);
    ctx.fillStyle = C.ink; ctx.font = `600 13px ${FONT}`;
    if (gut) {
      ctx.fillText(l.name, 14, y + (lh < 40 ? lh / 2 : 18), gut - 22);
      ctx.fillStyle = C.soft; ctx.font = `12px ${FONT}`;
      if (lh >= 40) ctx.fillText(S.mode === 'true' ? (l.yes ? t_('of_true', { n: l.seen, total: l.yes }) : t_('nothing_true')) : ppd > 8 && n > l.seen ? t_('of', { n: l.seen, total: n }) : t_('here', { n }), 14, y + 36);
    } else { const tw = ctx.measureText(l.name).width; ctx.fillStyle = C.stage; ctx.globalAlpha = 0.85; ctx.fillRect(4, y + 2, tw + 52, 16); ctx.globalAlpha = 1; ctx.fillStyle = C.ink; ctx.fillText(l.name, 8, y + 10); ctx.fillStyle = C.soft; ctx.font = `12px ${FONT}`; ctx.fillText(num(n), 14 + tw, y + 10); }
    if (gut) { ctx.fillStyle = C.line; ctx.fillRect(0, Math.round(y + lh) - 1, gut, 1); }
  });
  // The axis.
  ctx.fillStyle = C.stage; ctx.fillRect(0, 0, w, top); ctx.fillStyle = C.line; ctx.fillRect(0, top - 1, w, 1);
  let free = 0;
  if (gut) { ctx.fillStyle = C.soft; ctx.font = `12px ${FONT}`; ctx.fillText(S.b - S.a > 80 * DAY ? t_('months', { n: Math.round((S.b - S.a) / DAY / 30.4) }) : S.b - S.a > 1.5 * DAY ? t_('days', { n: Math.round((S.b - S.a) / DAY) }) : day((S.a + S.b) / 2), 14, top / 2); }
  for (const [t, text, strong] of marks) {
    const x = X(t) + 5;
    if (x < gut || x < free || x > w - 30 || (look && x > cx - 130 && x < cx + 54)) continue;
    ctx.font = `${strong ? '600 ' : ''}12px ${FONT}`; ctx.fillStyle = strong ? C.ink : C.soft; ctx.fillText(text, x, top / 2);
    free = x + ctx.measureText(text).width + 8;
  }
  if (look && cx > gut && cx < w) {
    ctx.fillStyle = C.then; ctx.fillRect(cx - 1, top - 4, 2, h);
    const text = day(S.cur); ctx.font = `600 12px ${FONT}`;
    const tw = ctx.measureText(text).width + 16, lx = Math.max(gut + 2, Math.min(w - tw - 2, cx - tw / 2));
    ctx.beginPath(); ctx.roundRect(lx, 4, tw, 22, 11); ctx.fill();
    ctx.fillStyle = C.on; ctx.fillText(text, lx + 8, 15.5);
  }
  timing.draws.push(performance.now() - t0); timing.ready = true;
  if (timing.draws.length > 2000) timing.draws.splice(0, 1000);
  drawStrip();
}
function between(l) { // exact, by halving: the items of a lane are in order of time
  const at = t => { let lo = 0, hi = l.items.length; while (lo < hi) { const mid = (lo + hi) >> 1; if (A[l.items[mid]].from < t) lo = mid + 1; else hi = mid; } return lo; };
  return at(S.b) - at(S.a);
}
let base = null;
function drawStrip() {
  const w = strip.clientWidth, h = strip.clientHeight, X2 = t => (t - FIRST) / (LAST - FIRST) * w;
  if (!base) { // the histogram is drawn once; the window over it each frame
    strip.width = w * dpr; strip.height = h * dpr;
    base = document.createElement('canvas'); base.width = w * dpr; base.height = h * dpr;
    const g = base.getContext('2d');
    g.scale(dpr, dpr); g.fillStyle = C.stage; g.fillRect(0, 0, w, h);
    const n = Math.floor(w / 6), bins = new Float32Array(n);
    all.forEach((c, d) => { bins[Math.min(n - 1, Math.floor(d / days * n))] += c; });
    const topBin = Math.max(1e-6, ...bins);
    g.fillStyle = C.accent; g.globalAlpha = 0.8;
    bins.forEach((c, i) => { const bh = c / topBin * (h - 24); if (c) g.fillRect(i * w / n, h - 18 - Math.max(1.5, bh), w / n - 1.5, Math.max(1.5, bh)); });
    g.globalAlpha = 1; g.font = `12px ${FONT}`; g.textBaseline = 'middle';
    let free = 0;
    for (const [t, text, strong] of ticks(w < 500 ? 60 : 52, FIRST, LAST, (LAST - FIRST) / w)) {
      const x = X2(t);
      if (x < free || x > w - 28) continue;
      g.fillStyle = strong ? C.ink : C.soft; g.font = `${strong ? '600 ' : ''}12px ${FONT}`; g.fillText(text, x + 4, h - 8.5); free = x + g.measureText(text).width + 10;
      g.fillStyle = C.line; g.fillRect(x, h - 16, 1, 16);
    }
  }
  sctx.setTransform(1, 0, 0, 1, 0, 0); sctx.drawImage(base, 0, 0);
  sctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  const a = X2(S.a), b = Math.max(a + 4, X2(S.b));
  sctx.globalAlpha = 0.72; sctx.fillStyle = C.stage; sctx.fillRect(0, 0, a, h - 17); sctx.fillRect(b, 0, w - b, h - 17); sctx.globalAlpha = 1;
  sctx.strokeStyle = C.accent; sctx.lineWidth = 2; sctx.beginPath(); sctx.roundRect(a + 1, 1, b - a - 2, h - 18, 5); sctx.stroke();
  sctx.fillStyle = C.accent;
  for (const x of [a, b]) { sctx.beginPath(); sctx.roundRect(Math.max(0, Math.min(w - 6, x - 3)), h / 2 - 20, 6, 22, 3); sctx.fill(); }
  if (S.mode !== 'off') { sctx.fillStyle = C.then; sctx.fillRect(X2(S.cur) - 1, 0, 2, h - 17); }
  strip.setAttribute('aria-valuenow', Math.round((S.a + S.b - 2 * FIRST) / 2 / (LAST - FIRST) * 100));
  strip.setAttribute('aria-valuetext', t_('from_to', { first: day(S.a), last: day(S.b) }));
}

// ---- moving about -----------------------------------------------------------------
let tween = 0, later = 0;
function show(a, b, animate) {
  let span = Math.min(LAST - FIRST, Math.max(DAY / 2, b - a));
  a = Math.max(FIRST, Math.min(LAST - span, (a + b - span) / 2)); b = a + span;
  cancelAnimationFrame(tween);
  if (animate && !still.matches) {
    const f = { a: S.a, b: S.b }, t0 = performance.now(), la = Math.log(f.b - f.a), lb = Math.log(span);
    const step = now => {
      const t = Math.min(1, (now - t0) / 320), u = t * t * (3 - 2 * t), s = Math.exp(la + (lb - la) * u);
      const k = Math.abs(span - (f.b - f.a)) < 1 ? u : (s - (f.b - f.a)) / (span - (f.b - f.a)), mid = (f.a + f.b) / 2 + ((a + b) / 2 - (f.a + f.b) / 2) * k;
      S.a = mid - s / 2; S.b = mid + s / 2; paint();
      if (t < 1) tween = requestAnimationFrame(step); else { S.a = a; S.b = b; after(); }
    };
    tween = requestAnimationFrame(step);
  } else { S.a = a; S.b = b; after(); }
  paint();
}
function after() {
  clearTimeout(later);
  later = setTimeout(() => {
    const d = (S.b - S.a) / DAY;
    document.querySelectorAll('[data-span]').forEach(x => x.setAttribute('aria-pressed', String(Math.abs(d - (+x.dataset.span || (LAST - FIRST) / DAY)) < 0.1)));
    if (S.as === 'list') drawList();
    more();
  }, 150);
}
// What overlaps the window by valid time is asked for, unless everything is here already.
const asked = new Set();
async function more() {
  if (isWhole) return;
  const reach = S.b - S.a, from = new Date(Math.max(FIRST, S.a - reach)).toISOString(), to = new Date(Math.min(T1, S.b + reach)).toISOString(), key = from.slice(0, 10) + to.slice(0, 10);
  if (asked.has(key) || from >= to) return;
  asked.add(key);
  const query = new URLSearchParams(location.search);
  query.set('from', from); query.set('to', to);
  const kept = S.sel >= 0 ? A[S.sel].id : '';
  if (!add((await load(`?${query}`)).items)) return;
  makeLanes();
  S.sel = kept ? A.findIndex(m => m.id === kept) : -1; S.hot = -1;
  then();
}
const zoomAt = (f, x, animate) => { const t = T(x), s = (S.b - S.a) * f; show(t - (t - S.a) * f, t - (t - S.a) * f + s, animate); };

// ---- true then, known then ----------------------------------------------------------
function then() {
  const said = $('said');
  $('whenbox').hidden = S.mode === 'off';
  document.querySelectorAll('[data-mode]').forEach(b => b.setAttribute('aria-pressed', String(b.dataset.mode === S.mode)));
  if (S.mode === 'off') { said.replaceChildren(t_('all', { n: isWhole ? A.length : raw.total, day: day(T0) })); paint(); return; }
  $('when').value = new Date(S.cur).toISOString().slice(0, 10);
  let yes = 0, knew = 0, heard = 0;
  for (const m of A) { if (m.known <= S.cur) heard++; if (m.kind !== 'event' && isTrue(m, S.cur)) { yes++; if (m.known <= S.cur) knew++; } }
  if (S.mode === 'true') said.replaceChildren(t_('true_on', { n: yes, day: day(S.cur) }), ' ', t_('knew', { n: knew }), ' ', el('em', {}, t_('later', { n: yes - knew })), ' ', el('button', { type: 'button', hidden: S.as === 'list', onclick: () => showAs('list') }, t_('list_them')));
  else said.replaceChildren(t_('known_by', { n: heard, day: day(S.cur) }), ' ', el('em', {}, t_('came_later', { n: A.length - heard })));
  paint();
}
function setMode(m) { S.mode = m; if (m !== 'off' && (S.cur < S.a || S.cur > S.b)) S.cur = (S.a + S.b) / 2; then(); if (S.as === 'list') drawList(); }
function setCur(t) { S.cur = Math.max(FIRST, Math.min(T1, t)); then(); if (S.as === 'list') after(); }

// ---- cards ----------------------------------------------------------------------------
const span = m => (m.to === m.from ? `${day(m.from)}, ${clock(m.from)}` : m.to === null ? t_('since', { day: day(m.from) }) : `${day(m.from)} – ${day(m.to)}`);
function select(k, bring) {
  S.sel = k;
  if (k < 0) { panel.hidden = true; size(); paint(); return; }
  const m = A[k], lag = Math.round((m.known - m.from) / DAY), mine = lanes[m[S.by]], at = mine.items.indexOf(k);
  const near = mine.items.slice(Math.max(0, at - 2), at + 3).filter(j => j !== k);
  panel.replaceChildren(el('button', { className: 'close', type: 'button', 'aria-label': t_('close'), onclick: () => { select(-1); view.focus(); } }, '×'),
    el('h2', {}, el('bdi', {}, m.text)),
    el('dl', {}, ...[[t_('kind'), t_(m.kind)], [m.to === m.from ? t_('happened') : t_('true'), span(m)], [t_('learnt'), lag > 1 ? t_('days_later', { day: day(m.known), n: lag }) : day(m.known)], [t_('source'), m.agent], [t_('project'), m.names.project || t_('no_project')], [t_('person'), m.names.person || t_('nobody')]].flatMap(([a, b]) => [el('dt', {}, a), el('dd', {}, el('bdi', {}, b))])),
    el('div', { className: 'acts' }, el('a', { className: 'button button-primary button-s', href: app.dataset.memory + encodeURIComponent(m.id) }, t_('open')), el('button', { type: 'button', onclick: () => { S.cur = m.from + (m.to === m.from ? 0 : DAY); setMode('true'); } }, t_('what_then'))),
    el('h3', {}, t_('near', { name: mine.name })),
    el('ul', { className: 'near' }, ...near.map(j => el('li', {}, el('button', { type: 'button', onclick: () => select(j, true) }, el('bdi', {}, A[j].text), el('small', {}, span(A[j])))))));
  panel.hidden = false; size(); tip.hidden = true;
  if (bring && (m.from < S.a || m.from > S.b)) show(m.from - (S.b - S.a) / 2, m.from + (S.b - S.a) / 2, true);
  live.textContent = [m.text, t_(m.kind), span(m), mine.name].join(', ');
  paint();
}
let rows = 60;
function drawList() {
  const out = [], here = A.filter(m => m.from <= S.b && end(m) >= S.a && (S.mode === 'off' || (S.mode === 'true' ? isTrue(m, S.cur) : m.known <= S.cur)));
  let month = '', ol = null;
  for (const m of here.slice(0, rows)) {
    const name = monthYear(m.from);
    if (name !== month) { month = name; ol = el('ol'); out.push(el('h2', {}, name), ol); }
    ol.append(el('li', {}, el('button', { type: 'button', onclick: () => select(A.indexOf(m)) }, el('small', {}, m.to === m.from ? weekday(m.from) + ', ' + clock(m.from) : span(m)), el('bdi', {}, m.text), el('small', {}, data.lanes[S.by][m[S.by]]))));
  }
  list.replaceChildren(...out);
  if (rows < here.length) list.append(el('button', { type: 'button', className: 'more', onclick: () => { rows += 60; drawList(); } }, t_('more')));
}
function showAs(as) {
  S.as = as; rows = 60;
  $('stage').hidden = as === 'list'; list.hidden = as !== 'list';
  document.querySelectorAll('[data-as]').forEach(b => b.setAttribute('aria-pressed', String(b.dataset.as === as)));
  then();
  if (as === 'list') drawList(); else size();
}

// ---- controls ---------------------------------------------------------------------------
const on = (sel, fn) => document.querySelectorAll(sel).forEach(b => b.addEventListener('click', () => fn(b)));
const zoomTo = d => { const mid = S.mode !== 'off' ? S.cur : S.sel >= 0 ? A[S.sel].from : S.b >= T1 ? T1 - d * DAY / 2.4 : (S.a + S.b) / 2, snap = d <= 7 ? Math.floor(mid / DAY) * DAY + DAY / 2 : mid; if (d) show(snap - d * DAY / 2, snap + d * DAY / 2, true); else show(FIRST, LAST, true); };
on('[data-span]', b => zoomTo(+b.dataset.span)); on('[data-mode]', b => setMode(b.dataset.mode)); on('[data-as]', b => showAs(b.dataset.as));
on('[data-by]', b => { S.by = b.dataset.by; S.big = -1; document.querySelectorAll('[data-by]').forEach(x => x.setAttribute('aria-pressed', String(x === b))); makeLanes(); paint(); if (S.as === 'list') drawList(); });
$('when').addEventListener('change', e => { const t = Date.parse(e.target.value); if (t) { setCur(t + DAY / 2); if (t < S.a || t > S.b) show(t - (S.b - S.a) / 2, t + (S.b - S.a) / 2, true); } });
const recolour = () => { colours(); base = null; paint(); };
darkScheme.addEventListener('change', recolour);

const local = (c, e) => { const r = c.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
const hit = (x, y) => { for (let q = boxes.length - 1; q >= 0; q--) { const [k, bx, by, bw, bh] = boxes[q]; if (x >= bx - 2 && x <= bx + bw + 2 && y >= by - 1 && y <= by + bh + 1) return k; } return -1; };
const laneAt = y => (S.lanesAt || []).findIndex(b => y >= b.y && y < b.y + b.h);
const down = new Map();
let moved = 0, grab = '', pinch = 0;
view.addEventListener('pointerdown', e => { const p = local(view, e); view.setPointerCapture(e.pointerId); down.set(e.pointerId, p); moved = 0; pinch = 0; grab = S.mode !== 'off' && (Math.abs(p[0] - X(S.cur)) < 8 || p[1] < S.top) ? 'cur' : 'pan'; if (grab === 'cur') setCur(T(p[0])); });
view.addEventListener('pointermove', e => {
  const [x, y] = local(view, e), was = down.get(e.pointerId);
  if (!was) {
    const k = hit(x, y);
    view.classList.toggle('on', k >= 0 || x < S.gut); view.classList.toggle('cut', S.mode !== 'off' && x > S.gut && (Math.abs(x - X(S.cur)) < 8 || y < S.top));
    if (k !== S.hot) { S.hot = k; paint(); }
    tip.hidden = k < 0;
    if (k >= 0) { tip.replaceChildren(el('bdi', {}, A[k].text), el('small', {}, `${span(A[k])} · ${A[k].agent}`)); tip.style.transform = `translate(${Math.min(S.w - 290, x + 14)}px, ${y > S.h - 110 ? y - 90 : y + 18}px)`; }
    return;
  }
  down.set(e.pointerId, [x, y]);
  if (down.size === 2) { const [[ax], [bx]] = [...down.values()], d = Math.max(20, Math.abs(ax - bx)); if (pinch) zoomAt(pinch / d, (ax + bx) / 2); pinch = d; moved = 99; return; }
  moved += Math.abs(x - was[0]) + Math.abs(y - was[1]);
  if (grab === 'cur') return setCur(T(x));
  if (moved < 4) return;
  view.classList.add('drag'); tip.hidden = true;
  const dt = (x - was[0]) / (S.w - S.gut) * (S.b - S.a);
  S.y -= y - was[1]; show(S.a - dt, S.b - dt);
});
const up = e => { const p = down.get(e.pointerId); if (!down.delete(e.pointerId)) return; view.classList.remove('drag'); if (moved < 4 && grab === 'pan' && e.type === 'pointerup') { const li = laneAt(p[1]); if (p[0] < S.gut && li >= 0) { S.big = S.big === li ? -1 : li; S.lane = li; paint(); } else { const k = hit(...p); if (k >= 0 || S.sel >= 0) select(k); } } };
view.addEventListener('pointerup', up); view.addEventListener('pointercancel', up);
view.addEventListener('pointerleave', () => { S.hot = -1; tip.hidden = true; paint(); });
view.addEventListener('dblclick', e => zoomAt(0.35, local(view, e)[0], true));
view.addEventListener('wheel', e => { e.preventDefault(); const x = local(view, e)[0]; if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) { const dt = (e.deltaX || e.deltaY) / (S.w - S.gut) * (S.b - S.a); show(S.a + dt, S.b + dt); } else zoomAt(Math.exp(e.deltaY * (e.ctrlKey ? 0.01 : 0.0018)), x); }, { passive: false });

// The strip: drag the window, drag an edge, or draw a new window.
let brush = null;
const ST = x => FIRST + x / strip.clientWidth * (LAST - FIRST);
strip.addEventListener('pointerdown', e => { const [x] = local(strip, e), t = ST(x), near = 8 / strip.clientWidth * (LAST - FIRST); strip.setPointerCapture(e.pointerId); brush = { how: Math.abs(t - S.a) < near ? 'a' : Math.abs(t - S.b) < near ? 'b' : t > S.a && t < S.b && S.b - S.a < (LAST - FIRST) * 0.98 ? 'move' : 'new', t, a: S.a, b: S.b }; });
strip.addEventListener('pointermove', e => {
  if (!brush) return;
  const t = ST(local(strip, e)[0]), d = t - brush.t;
  if (brush.how === 'move') show(brush.a + d, brush.b + d); else if (brush.how === 'a') show(Math.min(t, S.b - DAY), S.b); else if (brush.how === 'b') show(S.a, Math.max(t, S.a + DAY)); else if (Math.abs(d) > DAY * 3) show(Math.min(t, brush.t), Math.max(t, brush.t));
});
strip.addEventListener('pointerup', () => { brush = null; });
function keys(e) {
  const s = S.b - S.a, way = e.key === 'ArrowLeft' ? -1 : e.key === 'ArrowRight' ? 1 : 0, hop = e.key === 'ArrowUp' ? -1 : e.key === 'ArrowDown' ? 1 : 0;
  if (way && (e.shiftKey || e.currentTarget === strip)) show(S.a + way * s * 0.2, S.b + way * s * 0.2, true);
  else if (way) {
    const l = lanes[S.lane].items, mid = (S.a + S.b) / 2;
    let at = S.sel >= 0 && A[S.sel][S.by] === S.lane ? l.indexOf(S.sel) + way : l.findIndex(k => A[k].from > mid);
    at = Math.max(0, Math.min(l.length - 1, at)); select(l[at], true);
  } else if (hop) { S.lane = (S.lane + hop + lanes.length) % lanes.length; if (S.big >= 0) S.big = S.lane; live.textContent = `${lanes[S.lane].name}, ${t_('here', { n: lanes[S.lane].items.length })}`; S.sel = -1; paint(); } else if (e.key === '+' || e.key === '=') zoomAt(0.6, (S.w + S.gut) / 2, true); else if (e.key === '-') zoomAt(1 / 0.6, (S.w + S.gut) / 2, true); else if (e.key === 'Home') show(FIRST, FIRST + s, true); else if (e.key === 'End') show(LAST - s, LAST, true); else if (e.key === '0') show(FIRST, LAST, true);
  else if (e.key === 'f') { S.big = S.big === S.lane ? -1 : S.lane; paint(); } else if (e.key === 'Enter' && S.sel >= 0) panel.querySelector('a').focus();
  else return;
  e.preventDefault();
}
view.addEventListener('keydown', keys); strip.addEventListener('keydown', keys); view.addEventListener('focus', paint); view.addEventListener('blur', paint);
document.addEventListener('keydown', e => {
  if (e.target.matches('input') || document.querySelector('dialog[open]') || e.ctrlKey || e.metaKey) return;
  if (e.key === 'l') showAs(S.as === 'list' ? 'timeline' : 'list'); else if (e.key === 't') setMode({ off: 'true', true: 'known', known: 'off' }[S.mode]);
  else if (e.key === ',' || e.key === '.') { if (S.mode === 'off') setMode('true'); setCur(S.cur + (e.key === '.' ? 1 : -1) * DAY); } else if (e.key === 'Escape') select(-1);
});

function size() {
  const w = view.clientWidth, h = view.clientHeight, d = Math.min(2, devicePixelRatio || 1);
  if (!w || (w === S.w && h === S.h && d === dpr && base)) return;
  dpr = d; S.w = w; S.h = h; S.gut = w < 640 ? 0 : 150; view.width = w * dpr; view.height = h * dpr; base = null;
  draw();
}
makeLanes();
recolour();
size(); then(); after();
new ResizeObserver(size).observe(view); new ResizeObserver(() => { base = null; paint(); }).observe(strip);
Object.assign(timing, { show, select, setMode, setCur, draw, paint, lanes: () => lanes, FIRST, LAST });
