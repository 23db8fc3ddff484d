// The graph of people, projects and things. One file, two roles: in a page it draws, in a worker (the same file) it
// computes the layout. Texts come from the page, so that they stand in the language of the reader.

// ---------------------------------------------------------------- layout --
// Seeded by order only: the same entities and edges always give the same picture.

// A first guess that is nearly right: a tree around the first entity, each
// branch getting as much angle as it has leaves.
export function firstGuess(n, adj, x, y, done) {
  const order = Array.from({ length: n }, (_, i) => i).sort((a, b) => adj[b].length - adj[a].length || a - b);
  if (n) order.unshift(0); // the entity in focus comes first
  const parent = new Int32Array(n).fill(-1), depth = new Int32Array(n), leaves = new Float32Array(n), seen = new Uint8Array(n);
  let islands = 0;
  for (const root of order) {
    if (seen[root]) continue;
    const queue = [root], kids = new Map();
    seen[root] = 1;
    for (let q = 0; q < queue.length; q++) {
      const at = queue[q], mine = [];
      for (const to of adj[at]) if (!seen[to]) { seen[to] = 1; parent[to] = at; depth[to] = depth[at] + 1; queue.push(to); mine.push(to); }
      kids.set(at, mine);
    }
    for (let q = queue.length - 1; q >= 0; q--) {
      const i = queue[q];
      leaves[i] = Math.max(1, leaves[i]);
      if (parent[i] >= 0) leaves[parent[i]] += leaves[i];
    }
    const far = islands ? 60 * Math.sqrt(n) : 0, turn = islands++ * 2.4;
    const ox = Math.cos(turn) * far, oy = Math.sin(turn) * far, start = new Map([[root, [0, Math.PI * 2]]]);
    for (const i of queue) {
      const [a0, a1] = start.get(i), mid = (a0 + a1) / 2, r = depth[i] * (60 + 3.2 * Math.sqrt(n));
      if (!done || !done[i]) { x[i] = ox + Math.cos(mid) * r; y[i] = oy + Math.sin(mid) * r * 0.75; }
      let a = a0;
      const sum = kids.get(i).reduce((t, k) => t + leaves[k], 0);
      for (const k of kids.get(i)) { const b = a + (a1 - a0) * leaves[k] / sum; start.set(k, [a, b]); a = b; }
    }
  }
}

export function settle({ n, src, dst, len, size, x, y, steps, heat, shape }, progress) {
  const vx = new Float32Array(n), vy = new Float32Array(n), deg = new Float32Array(n), m = src.length;
  for (let e = 0; e < m; e++) { deg[src[e]]++; deg[dst[e]]++; }
  const cap = n * 3 + 64, child = new Int32Array(cap * 4), mass = new Float32Array(cap), mx = new Float32Array(cap), my = new Float32Array(cap), leaf = new Int32Array(cap), stack = new Int32Array(512), width = new Float32Array(512);
  const pull = 0.012 + 0.5 / Math.sqrt(n + 60);
  for (let step = 0; step < steps; step++) {
    const alpha = heat * Math.pow(1 - step / steps, 1.4) + 0.004;
    // Tree of squares.
    let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity;
    for (let i = 0; i < n; i++) { if (x[i] < x0) x0 = x[i]; if (x[i] > x1) x1 = x[i]; if (y[i] < y0) y0 = y[i]; if (y[i] > y1) y1 = y[i]; }
    const side = Math.max(x1 - x0, y1 - y0) + 1;
    let used = 1;
    child.fill(-1, 0, 4); leaf[0] = -1; mass[0] = 0;
    for (let i = 0; i < n; i++) {
      let c = 0, cx = x0, cy = y0, w = side, guard = 0;
      for (;;) {
        if (mass[c] === 0) { mass[c] = 1 + deg[i] * 0.35; mx[c] = x[i] * mass[c]; my[c] = y[i] * mass[c]; leaf[c] = i; break; }
        const old = leaf[c];
        if (old >= 0) {
          if (guard > 24 || used + 4 > cap) { const k = 1 + deg[i] * 0.35; mass[c] += k; mx[c] += x[i] * k; my[c] += y[i] * k; break; }
          const h = w / 2, q = (x[old] >= cx + h ? 1 : 0) + (y[old] >= cy + h ? 2 : 0), k = used++;
          child.fill(-1, k * 4, k * 4 + 4);
          mass[k] = mass[c]; mx[k] = mx[c]; my[k] = my[c]; leaf[k] = old; leaf[c] = -1;
          child[c * 4 + q] = k;
        }
        const k = 1 + deg[i] * 0.35;
        mass[c] += k; mx[c] += x[i] * k; my[c] += y[i] * k;
        w /= 2;
        const q = (x[i] >= cx + w ? 1 : 0) + (y[i] >= cy + w ? 2 : 0);
        if (q & 1) cx += w;
        if (q & 2) cy += w;
        let next = child[c * 4 + q];
        if (next < 0) { next = used++; child.fill(-1, next * 4, next * 4 + 4); mass[next] = 0; leaf[next] = -1; child[c * 4 + q] = next; }
        c = next; guard++;
      }
    }
    for (let i = 0; i < n; i++) {
      let top = 0, fx = 0, fy = 0;
      stack[0] = 0; width[0] = side; top = 1;
      while (top) {
        const c = stack[--top], w = width[top], k = mass[c];
        let dx = mx[c] / k - x[i], dy = my[c] / k - y[i], d2 = dx * dx + dy * dy;
        if (leaf[c] >= 0 || w * w < d2 * 0.9) {
          if (leaf[c] === i) continue;
          if (d2 < 1) { dx = ((i * 7919) % 13 - 6) * 0.1 + 0.05; dy = ((i * 104729) % 13 - 6) * 0.1 + 0.05; d2 = 1; }
          const f = k * 620 / (d2 + 60);
          fx -= dx * f / 10; fy -= dy * f / 10;
        } else for (let q = 0; q < 4; q++) {
          const to = child[c * 4 + q];
          if (to >= 0 && mass[to]) { stack[top] = to; width[top++] = w / 2; }
        }
      }
      vx[i] += (fx * 0.55 - x[i] * pull * shape[0]) * alpha;
      vy[i] += (fy * 0.55 - y[i] * pull * shape[1]) * alpha;
    }
    for (let e = 0; e < m; e++) {
      const a = src[e], b = dst[e];
      const dx = x[b] + vx[b] - x[a] - vx[a] || 0.01, dy = y[b] + vy[b] - y[a] - vy[a] || 0.01, d = Math.sqrt(dx * dx + dy * dy);
      const f = (d - len[e]) / d * alpha / Math.sqrt(deg[a] * deg[b]) * 0.9, share = deg[a] / (deg[a] + deg[b]);
      vx[b] -= dx * f * share; vy[b] -= dy * f * share;
      vx[a] += dx * f * (1 - share); vy[a] += dy * f * (1 - share);
    }
    for (let i = 0; i < n; i++) {
      vx[i] *= 0.62; vy[i] *= 0.62;
      const v = Math.hypot(vx[i], vy[i]), cut = v > 60 ? 60 / v : 1;
      x[i] += vx[i] * cut; y[i] += vy[i] * cut;
    }
    if (step > steps * 0.6) apart(n, x, y, size);
    if (progress && step % 6 === 5) progress(step);
  }
}

// Push apart what touches, by cells, in a fixed order.
function apart(n, x, y, size) {
  const cell = 34, at = new Map();
  for (let i = 0; i < n; i++) { const k = Math.round(x[i] / cell) * 65536 + Math.round(y[i] / cell); const l = at.get(k); if (l) l.push(i); else at.set(k, [i]); }
  for (let i = 0; i < n; i++) {
    const gx = Math.round(x[i] / cell), gy = Math.round(y[i] / cell);
    for (let a = -1; a <= 1; a++) for (let b = -1; b <= 1; b++) {
      const l = at.get((gx + a) * 65536 + gy + b);
      if (l) for (const j of l) if (j > i) {
        const dx = x[j] - x[i] || 0.1, dy = y[j] - y[i] || 0.1, d = Math.hypot(dx, dy), min = size[i] + size[j] + 7;
        if (d < min) { const s = (min - d) / d * 0.35; x[i] -= dx * s; y[i] -= dy * s; x[j] += dx * s; y[j] += dy * s; }
      }
    }
  }
}

if (typeof document === 'undefined') {
  self.onmessage = ({ data }) => {
    const t0 = performance.now();
    let last = t0;
    settle(data, data.show ? () => {
      if (performance.now() - last > 30) { last = performance.now(); self.postMessage({ job: data.job, x: data.x, y: data.y }); }
    } : null);
    self.postMessage({ job: data.job, x: data.x, y: data.y, done: true, ms: performance.now() - t0 });
  };
} else page();

// ------------------------------------------------------------------ page --
async function page() {
  const ask = new URLSearchParams(location.search), $ = id => document.getElementById(id), app = $('explore');
  const T = JSON.parse(app.dataset.texts), lang = document.documentElement.lang;
  // A text with its values; one that depends on a number has two forms.
  const t = (name, values = {}) => { const text = typeof T[name] === 'string' ? T[name] : T[name][values.n === 1 ? 'one' : 'other']; return text.replace(/\{(\w+)\}/g, (whole, key) => (key in values ? (typeof values[key] === 'number' ? values[key].toLocaleString(lang) : values[key]) : whole)); };
  let graph;
  try {
    const answer = await fetch(`${app.dataset.source}${location.search}`);
    if (answer.redirected) { location.reload(); return; }
    graph = await answer.json();
  } catch { $('status').textContent = t('failed'); return; }
  const KINDS = graph.kinds, moment = text => Date.parse(text), NOW = Date.now();
  if (graph.nodes.length < 2) { app.hidden = true; $('nothing').hidden = false; return; }
  app.hidden = false;
  for (const e of graph.edges) { e.from = moment(e.from); e.to = e.to === null ? null : moment(e.to); }
  graph.range = [Math.min(NOW - 32 * 86400000, ...graph.edges.map(e => e.from)), NOW];
  const months0 = new Date(graph.range[0]), months1 = new Date(NOW);
  // Months of the slider.
  const M = Math.max(1, (months1.getUTCFullYear() - months0.getUTCFullYear()) * 12 + months1.getUTCMonth() - months0.getUTCMonth());
  const view = $('view'), ctx = view.getContext('2d', { alpha: false }), months = $('months'), panel = $('panel'), list = $('list'), live = $('live');
  const still = matchMedia('(prefers-reduced-motion: reduce)'), darkScheme = matchMedia('(prefers-color-scheme: dark)');
  const N = graph.nodes, index = new Map(N.map((n, i) => [n.id, i]));
  const E = graph.edges.map(e => ({ ...e, a: index.get(e.source), b: index.get(e.target) }));
  const adj = N.map(() => []);
  E.forEach((e, k) => { adj[e.a].push(k); adj[e.b].push(k); });
  const X = new Float32Array(N.length), Y = new Float32Array(N.length), placed = new Uint8Array(N.length);
  const R = Float32Array.from(N, n => Math.min(17, 3.2 + Math.sqrt(n.memories) * 0.95));
  const byWeight = N.map((_, i) => i).sort((a, b) => N[b].memories - N[a].memories || a - b);
  const rank = new Int32Array(N.length);
  byWeight.forEach((i, k) => { rank[i] = k; });
  const you = index.get(graph.you);
  const LIMIT = innerWidth < 760 ? 36 : 90;
  const S = { focus: you, hops: 2, shown: new Set(), nodes: [], edges: [], off: new Set(), t0: 0, t1: M, sel: -1, hot: -1, k: 1, cx: 0, cy: 0, w: 0, h: 0, reach: 0, as: 'graph' };
  const other = (k, i) => (E[k].a === i ? E[k].b : E[k].a);
  const month = i => { const d = new Date(graph.range[0]); return Date.UTC(d.getUTCFullYear(), d.getUTCMonth() + i, 1); };
  const fmt = new Intl.DateTimeFormat(lang, { month: 'short', year: 'numeric', timeZone: 'UTC' });
  const num = n => n.toLocaleString(lang);
  const kindName = Object.fromEntries(['person', 'project', 'thing', 'org', 'place', 'topic'].map(kind => [kind, t(`one_${kind}`)]));

  function el(tag, props = {}, ...kids) {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(props)) {
      if (k.startsWith('on')) e.addEventListener(k.slice(2), v); else if (k in e) e[k] = v; else e.setAttribute(k, v);
    }
    e.append(...kids);
    return e;
  }
  const PATHS = { person: 'M7 1a6 6 0 110 12A6 6 0 017 1z', project: 'M3.5 1.5h7a2 2 0 012 2v7a2 2 0 01-2 2h-7a2 2 0 01-2-2v-7a2 2 0 012-2z', thing: 'M7 .4L13.6 7 7 13.6.4 7z', org: 'M7 .6l5.6 3.2v6.4L7 13.4l-5.6-3.2V3.8z', place: 'M7 1.2L13.4 12.4H.6z', topic: 'M7 3a4 4 0 110 8 4 4 0 010-8z' };
  function mark(kind) {
    const s = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), p = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    s.setAttribute('viewBox', '0 0 14 14'); s.setAttribute('class', 'mark ' + kind); s.setAttribute('aria-hidden', 'true'); p.setAttribute('d', PATHS[kind]);
    s.append(p);
    return s;
  }

  // Colours come from the style sheet, marks are drawn once for each kind and size.
  let C = {}, marks = new Map(), dpr = 1;
  function colours() {
    // A probe resolves the colours of the scheme.
    const probe = document.createElement('span');
    app.append(probe);
    C = {};
    for (const k of ['ink', 'soft', 'edge', 'halo', 'stage', 'accent', 'line', 'tint', 'person', 'project', 'thing', 'org', 'place', 'topic']) { probe.style.color = `var(--${k})`; C[k] = getComputedStyle(probe).color; }
    probe.remove();
    marks = new Map();
  }
  function sprite(kind, r) {
    const key = kind + r;
    let c = marks.get(key);
    if (c) return c;
    const half = r + 3;
    c = document.createElement('canvas');
    c.width = c.height = Math.ceil(half * 2 * dpr);
    const g = c.getContext('2d');
    g.scale(dpr * half / 7 * (r / half), dpr * half / 7 * (r / half));
    const s = half / r;
    g.translate(7 * s - 7, 7 * s - 7);
    const p = new Path2D(PATHS[kind]);
    g.lineJoin = 'round'; g.strokeStyle = C.stage; g.lineWidth = 14 * 2.4 / r / 2 + (kind === 'topic' ? 5 : 0);
    g.stroke(p);
    if (kind === 'topic') { g.fillStyle = C.stage; g.fill(p); g.strokeStyle = C.topic; g.lineWidth = 4; g.stroke(p); } else { g.fillStyle = C[kind]; g.fill(p); }
    marks.set(key, c);
    return c;
  }

  // ---- what is shown -------------------------------------------------------
  const inTime = e => e.from <= month(S.t1 + 1) && (e.to === null || e.to >= month(S.t0));
  function choose() {
    S.shown = new Set();
    if (S.hops === 0) { N.forEach((_, i) => S.shown.add(i)); S.reach = N.length; return; }
    let ring = [S.focus];
    const dist = new Map([[S.focus, 0]]), bond = new Map([[S.focus, 99]]);
    for (let h = 1; h <= S.hops; h++) {
      const next = [];
      for (const i of ring) for (const k of adj[i]) { const j = other(k, i); if (!dist.has(j)) { dist.set(j, h); next.push(j); } if (dist.get(j) === h) bond.set(j, Math.max(bond.get(j) || 0, Math.min(E[k].memories, bond.get(i)))); }
      ring = next;
    }
    S.reach = dist.size;
    // The strongest bonds first (how much is remembered of them): what is cut is the far and the faint.
    const score = i => bond.get(i) / dist.get(i);
    [...dist.keys()].sort((a, b) => score(b) - score(a) || rank[a] - rank[b]).slice(0, S.all ? Infinity : LIMIT).forEach(i => S.shown.add(i));
    S.shown.add(S.focus);
  }
  function filter() {
    const ok = i => S.shown.has(i) && !S.off.has(N[i].kind);
    S.edges = [];
    const alive = new Set([S.focus]);
    E.forEach((e, k) => { if (ok(e.a) && ok(e.b) && inTime(e)) { S.edges.push(k); alive.add(e.a); alive.add(e.b); } });
    S.edges.sort((p, q) => E[q].memories - E[p].memories || p - q);
    const whole = S.t0 === 0 && S.t1 === M;
    S.nodes = byWeight.filter(i => ok(i) && (whole || alive.has(i)));
    S.live = new Uint8Array(N.length);
    for (const i of S.nodes) S.live[i] = 1;
    if (S.sel >= 0 && !S.live[S.sel]) S.sel = -1;
    S.hot = -1;
    status(); if (S.as === 'list') drawList(); paint();
  }
  function status() {
    const s = $('status');
    s.textContent = S.hops === 0 ? t('all_shown', { entities: S.nodes.length, connections: S.edges.length }) : t(S.hops === 1 ? 'within_one' : 'within_two', { shown: S.nodes.length, reach: S.reach, name: N[S.focus].label });
    if (S.hops && S.reach > S.shown.size) s.append(' · ', el('button', { type: 'button', onclick: () => { S.all = true; rebuild(); } }, t('show_all')));
  }

  // ---- layout in the worker, with a plain fallback -------------------------
  let worker = null, job = 0, wanted = null;
  try { worker = new Worker(new URL(import.meta.url), { type: 'module' }); } catch { worker = null; }
  const timing = window.explore = { S, layout: 0, draws: [], draw: () => draw(), ready: false };
  function lay(fit) {
    const ids = [...S.shown].sort((a, b) => (a === S.focus ? -1 : b === S.focus ? 1 : a - b)), local = new Map(ids.map((g, i) => [g, i])), n = ids.length;
    const src = [], dst = [], len = [], near = ids.map(() => []);
    for (const e of E) {
      const a = local.get(e.a), b = local.get(e.b);
      if (a === undefined || b === undefined) continue;
      src.push(a); dst.push(b); near[a].push(b); near[b].push(a);
    }
    const room = n < 260 ? 1.2 : 0.5;
    for (let k = 0; k < src.length; k++) len.push((26 + R[ids[src[k]]] + R[ids[dst[k]]] + 9 * Math.sqrt(Math.min(near[src[k]].length, near[dst[k]].length))) * (room + 0.3));
    const x = new Float32Array(n), y = new Float32Array(n), old = new Uint8Array(n);
    const kept = fit === 'keep';
    if (kept) ids.forEach((g, i) => { if (placed[g]) { x[i] = X[g]; y[i] = Y[g]; old[i] = 1; } });
    firstGuess(n, near, x, y, old);
    if (kept) { // a new entity starts beside one that is there
      const used = new Map();
      ids.forEach((g, i) => { if (!old[i]) { const p = near[i].find(j => old[j]); if (p !== undefined) { const c = used.get(p) || 0; used.set(p, c + 1); x[i] = x[p] + Math.cos(c * 2.4) * (50 + 4 * c); y[i] = y[p] + Math.sin(c * 2.4) * (50 + 4 * c); } } });
    }
    const data = { job: ++job, n, src: Int32Array.from(src), dst: Int32Array.from(dst), len: Float32Array.from(len), size: Float32Array.from(ids, g => R[g]), x, y, steps: n > 3000 ? 110 : n > 800 ? 150 : 260, heat: kept ? 0.35 : 1, shape: S.w > S.h * 1.3 ? [1, 2.6] : S.w > S.h * 0.8 ? [1.6, 1.6] : [2.6, 1], show: !still.matches && !ask.has('still') };
    const t0 = performance.now();
    wanted = { ids, fit, t0 };
    timing.ready = false;
    if (worker) worker.postMessage(data);
    else { settle(data); take({ job, x, y, done: true, ms: performance.now() - t0 }); }
  }
  function take({ job: which, x, y, done, ms }) {
    if (which !== job) return;
    wanted.ids.forEach((g, i) => { X[g] = x[i]; Y[g] = y[i]; placed[g] = 1; });
    if (wanted.fit !== 'keep') fit(false);
    if (done) { timing.layout = ms; timing.layoutWall = performance.now() - wanted.t0; timing.ready = true; if (wanted.then) wanted.then(); }
    paint();
  }
  if (worker) { worker.onmessage = e => take(e.data); worker.onerror = () => { worker = null; lay(wanted && wanted.fit); }; }
  function rebuild() { choose(); filter(); lay('fit'); }

  // ---- camera ---------------------------------------------------------------
  let tween = 0;
  function fly(cx, cy, k, animate = true) {
    cancelAnimationFrame(tween);
    if (!animate || still.matches) { Object.assign(S, { cx, cy, k }); paint(); return; }
    const from = { cx: S.cx, cy: S.cy, k: S.k }, t0 = performance.now();
    const step = now => {
      const at = Math.min(1, (now - t0) / 260), u = 1 - (1 - at) ** 3;
      S.k = from.k * (k / from.k) ** u; S.cx = from.cx + (cx - from.cx) * u; S.cy = from.cy + (cy - from.cy) * u;
      paint();
      if (at < 1) tween = requestAnimationFrame(step);
    };
    tween = requestAnimationFrame(step);
  }
  function fit(animate = true) {
    let x0 = 1e9, y0 = 1e9, x1 = -1e9, y1 = -1e9;
    for (const i of S.nodes) { x0 = Math.min(x0, X[i]); x1 = Math.max(x1, X[i]); y0 = Math.min(y0, Y[i]); y1 = Math.max(y1, Y[i]); }
    if (x0 > x1) return;
    const foot = 64, k = Math.min(3, (S.w - 110) / (x1 - x0 + 40), (S.h - foot - 70) / (y1 - y0 + 40));
    fly((x0 + x1) / 2, (y0 + y1) / 2 + (foot - 24) / 2 / k, k, animate);
  }
  const zoomAt = (f, px, py, animate) => {
    const k = Math.min(8, Math.max(0.04, S.k * f)), wx = S.cx + (px - S.w / 2) / S.k, wy = S.cy + (py - S.h / 2) / S.k;
    fly(wx - (px - S.w / 2) / k, wy - (py - S.h / 2) / k, k, animate);
  };

  // ---- drawing --------------------------------------------------------------
  let due = false;
  function paint() { if (!due) { due = true; requestAnimationFrame(() => { due = false; draw(); }); } }
  const FONT = 'system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif', widths = new Map();
  function width(text, font) { const k = font + text; let w = widths.get(k); if (w === undefined) { ctx.font = font; w = ctx.measureText(text).width; widths.set(k, w); } return w; }
  const short = text => (text.length > 26 ? text.slice(0, 25) + '…' : text);
  // Occupied squares of 4 px: one look-up instead of comparing all with all.
  let occ = new Uint8Array(0), ow = 0, oh = 0;
  function free(x, y, w, h, claim) {
    const a = Math.floor(x / 4), b = Math.floor(y / 4), c = Math.floor((x + w) / 4), d = Math.floor((y + h) / 4);
    if (a < 0 || b < 0 || c >= ow || d >= oh) return false;
    for (let r = b; r <= d; r++) for (let q = a; q <= c; q++) if (occ[r * ow + q]) return false;
    if (claim) for (let r = b; r <= d; r++) occ.fill(1, r * ow + a, r * ow + c + 1);
    return true;
  }
  function block(x, y, w, h) {
    const a = Math.max(0, Math.floor(x / 4)), c = Math.min(ow - 1, Math.floor((x + w) / 4)), d = Math.min(oh - 1, Math.floor((y + h) / 4));
    for (let r = Math.max(0, Math.floor(y / 4)); r <= d; r++) if (c >= a) occ.fill(1, r * ow + a, r * ow + c + 1);
  }
  const side = new Int8Array(N.length);
  let px = new Float32Array(N.length), py = new Float32Array(N.length), pr = new Float32Array(N.length);
  function draw() {
    const t0 = performance.now(), { w, h, k, cx, cy } = S, lead = S.hot >= 0 ? S.hot : S.sel;
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.globalAlpha = 1;
    ctx.fillStyle = C.stage; ctx.fillRect(0, 0, w, h);
    const grow = Math.pow(k, 0.6), near = new Set();
    for (const i of S.nodes) { px[i] = (X[i] - cx) * k + w / 2; py[i] = (Y[i] - cy) * k + h / 2; pr[i] = Math.min(26, Math.max(1.6, R[i] * grow)); }
    if (lead >= 0) { near.add(lead); for (const e of adj[lead]) { const o = other(e, lead); if (S.live[o] && inTime(E[e])) near.add(o); } }
    // Edges: thin lines in one path; old ones (ended) are fainter.
    const dim = lead >= 0 ? 0.28 : 1, big = S.edges.length > 900;
    for (const ended of [true, false]) {
      ctx.beginPath();
      for (const e of S.edges) {
        const { a, b, to } = E[e];
        if ((to !== null) !== ended) continue;
        const ax = px[a], ay = py[a], bx = px[b], by = py[b];
        if ((ax < 0 && bx < 0) || (ay < 0 && by < 0) || (ax > w && bx > w) || (ay > h && by > h)) continue;
        ctx.moveTo(ax, ay); ctx.lineTo(bx, by);
      }
      ctx.strokeStyle = C.edge; ctx.lineWidth = 1 / dpr; ctx.globalAlpha = (big ? 0.2 : 0.34) * (ended ? 0.55 : 1) * dim;
      ctx.stroke();
    }
    ctx.globalAlpha = 1;
    if (lead >= 0) {
      ctx.strokeStyle = ctx.fillStyle = C.accent; ctx.lineWidth = near.size > 30 ? 1 : 1.5; ctx.globalAlpha = near.size > 30 ? 0.7 : 1;
      ctx.beginPath();
      const heads = new Path2D();
      for (const e of adj[lead]) {
        const { a, b } = E[e];
        if (!near.has(a) || !near.has(b)) continue;
        const dx = px[b] - px[a], dy = py[b] - py[a], d = Math.hypot(dx, dy) || 1, ux = dx / d, uy = dy / d, r = pr[b] + 3;
        ctx.moveTo(px[a], py[a]); ctx.lineTo(px[b] - ux * (r + 4), py[b] - uy * (r + 4));
        if (d > r + 20) { const tx = px[b] - ux * r, ty = py[b] - uy * r; heads.moveTo(tx, ty); heads.lineTo(tx - ux * 8 - uy * 3.6, ty - uy * 8 + ux * 3.6); heads.lineTo(tx - ux * 8 + uy * 3.6, ty - uy * 8 - ux * 3.6); }
      }
      ctx.stroke(); ctx.fill(heads); ctx.globalAlpha = 1;
    }
    // Entities, small ones first so that the weighty stay on top.
    const see = [];
    for (let pass = 0; pass < 2; pass++) {
      ctx.globalAlpha = pass || lead < 0 ? 1 : 0.3;
      for (let q = S.nodes.length - 1; q >= 0; q--) {
        const i = S.nodes[q], x = px[i], y = py[i], r = pr[i];
        if (x < -r || y < -r || x > w + r || y > h + r || (lead >= 0 && near.has(i) !== !!pass) || (lead < 0 && pass)) continue;
        see.push(i);
        if (r < 2.4) { ctx.fillStyle = C[N[i].kind]; ctx.fillRect(x - r * 0.85, y - r * 0.85, r * 1.7, r * 1.7); continue; }
        const rr = Math.round(r), s = sprite(N[i].kind, rr), half = rr + 3;
        ctx.drawImage(s, x - half, y - half, half * 2, half * 2);
      }
    }
    ctx.globalAlpha = 1;
    for (const [i, c] of [[S.sel, C.accent], [S.hot, C.ink]]) if (i >= 0 && S.live[i]) { ctx.strokeStyle = c; ctx.lineWidth = 2.5; ctx.beginPath(); ctx.arc(px[i], py[i], pr[i] + 4.5, 0, 7); ctx.stroke(); }
    // Labels by priority; each has four places to try and never covers another or a mark.
    ow = Math.ceil(w / 4) + 1; oh = Math.ceil(h / 4) + 1;
    if (occ.length !== ow * oh) occ = new Uint8Array(ow * oh); else occ.fill(0);
    for (const i of see) if (lead >= 0 ? near.has(i) : pr[i] >= 4) block(px[i] - pr[i] + 2, py[i] - pr[i] + 2, pr[i] * 2 - 4, pr[i] * 2 - 4);
    for (const box of S.boxes || []) block(...box);
    const order = see.sort((a, b) => pri(b) - pri(a));
    function pri(i) { return (i === S.hot ? 4e6 : i === S.sel ? 3e6 : near.has(i) ? 2e6 : 0) + (i === S.focus ? 1e6 : 0) - rank[i]; }
    let count = 0;
    const most = lead >= 0 ? 90 : Math.min(170, 60 + 90 * k), drawn = [];
    for (const i of order) {
      if (count >= most) break;
      if (lead >= 0 && !near.has(i)) break;
      const strong = i === lead || i === S.sel || i === S.focus, size = strong ? 15 : pr[i] > 11 ? 14 : 12.5;
      const font = `${strong || pr[i] > 11 ? 600 : 400} ${size}px ${FONT}`, text = short(N[i].label), tw = width(text, font), th = size + 2, r = pr[i] + 3;
      const spots = [[px[i] - tw / 2, py[i] + r], [px[i] + r + 1, py[i] - th / 2], [px[i] - tw / 2, py[i] - r - th], [px[i] - r - 1 - tw, py[i] - th / 2]];
      for (let s = 0; s < 4; s++) {
        const which = (side[i] + s) % 4, [lx, ly] = spots[which];
        if (free(lx - 1, ly, tw + 2, th, true)) { side[i] = which; count++; drawn.push([text, lx, ly, font, tw, th]); break; }
      }
    }
    // Verbs on the edges of what is looked at, or on all when there is room.
    const verbs = lead >= 0 ? adj[lead].filter(e => near.has(E[e].a) && near.has(E[e].b)) : k > 1.5 && S.edges.length < 1500 ? S.edges : [], vf = `italic 12px ${FONT}`;
    const said = [];
    if (lead >= 0 || verbs.length) for (const e of verbs) {
      const { a, b, verb } = E[e], d = Math.hypot(px[a] - px[b], py[a] - py[b]), tw = width(verb, vf);
      if (d < tw * 0.7 + pr[a] + pr[b]) continue;
      for (const f of lead === b ? [0.5, 0.36, 0.24] : [0.5, 0.64, 0.76]) {
        const x = px[a] + (px[b] - px[a]) * f - tw / 2, y = py[a] + (py[b] - py[a]) * f - 7;
        if (free(x - 2, y, tw + 4, 14, true)) { said.push([verb, x, y, tw]); break; }
      }
      if (said.length >= (lead >= 0 ? 60 : 40)) break;
    }
    ctx.textBaseline = 'top'; ctx.font = vf;
    ctx.fillStyle = C.stage;
    for (const [, x, y, tw] of said) ctx.fillRect(x - 2, y, tw + 4, 14);
    ctx.fillStyle = lead >= 0 ? C.accent : C.soft;
    for (const [text, x, y] of said) ctx.fillText(text, x, y);
    ctx.lineWidth = 3; ctx.lineJoin = 'round'; ctx.strokeStyle = C.halo; ctx.fillStyle = C.ink;
    let set = '';
    for (const [text, x, y, f] of drawn) {
      if (f !== set) ctx.font = set = f;
      ctx.strokeText(text, x, y); ctx.fillText(text, x, y);
    }
    ctx.globalAlpha = 1;
    timing.labels = drawn; timing.draws.push(performance.now() - t0);
    if (timing.draws.length > 2000) timing.draws.splice(0, 1000);
  }

  // ---- side panel -----------------------------------------------------------
  const ago = at => { const d = Math.round((NOW - at) / 86400000); return d < 1 ? t('today') : d < 45 ? t('days_ago', { n: d }) : fmt.format(at); };
  const hiddenOf = i => adj[i].map(k => other(k, i)).filter(j => !S.shown.has(j));
  function select(i, { centre = false, say = true } = {}) {
    S.sel = i;
    if (i < 0) { panel.hidden = true; size(); paint(); return; }
    const n = N[i], hidden = hiddenOf(i).length;
    const rel = adj[i].slice().sort((a, b) => E[b].memories - E[a].memories);
    const relList = el('ul', { className: 'rel' }), mem = el('ul', { className: 'mem' });
    const addRel = count => {
      for (const k of rel.slice(relList.children.length, relList.children.length + count)) {
        const e = E[k], j = other(k, i), out = e.a === i;
        relList.append(el('li', {}, el('i', {}, out ? e.verb : '← ' + e.verb), el('span', {}, el('button', { type: 'button', onclick: () => go(j) }, el('bdi', {}, N[j].label)), el('small', {}, e.to === null ? t('since', { day: fmt.format(e.from) }) : t('until', { day: fmt.format(e.to) })))));
      }
    };
    let next = 0, total = 0;
    const more = el('button', { type: 'button', className: 'more', onclick: () => addMem() }, t('more'));
    total = n.memories;
    const addMem = async () => {
      const ids = n.ids.slice(next, next + 8);
      next += ids.length; more.hidden = next >= n.ids.length;
      if (!ids.length) return;
      const answer = await fetch(`${app.dataset.memories}?${new URLSearchParams(ids.map(id => ['id', id]))}`).catch(() => null);
      if (!answer || answer.redirected) { mem.append(el('li', {}, t('failed'))); return; }
      for (const m of (await answer.json()).items) mem.append(el('li', {}, el('a', { href: app.dataset.memory + encodeURIComponent(m.id) }, el('bdi', {}, m.text)), el('small', {}, `${m.agent} · ${ago(moment(m.at))}`)));
    };
    addRel(9); addMem();
    const moreRel = el('button', { type: 'button', className: 'more', hidden: rel.length <= 9, onclick: () => { addRel(40); moreRel.hidden = relList.children.length >= rel.length; } }, t('show_n', { n: rel.length }));
    panel.replaceChildren(
      el('button', { className: 'close', type: 'button', 'aria-label': t('close'), onclick: () => { select(-1); view.focus(); } }, '×'),
      el('h2', {}, el('bdi', {}, n.label)),
      el('p', { className: 'kind' }, mark(n.kind), [kindName[n.kind], t('connections', { n: rel.length }), t('memories', { n: n.memories })].join(' · ')),
      el('div', { className: 'acts' },
        el('button', { type: 'button', disabled: !hidden, onclick: () => expand(i) }, hidden ? t('expand', { n: hidden }) : t('expanded')),
        el('button', { type: 'button', onclick: () => around(i) }, t('centre'))),
      el('h3', {}, t('connections_title')), relList, moreRel, el('h3', {}, t('memories', { n: total })), mem, more);
    panel.hidden = false; panel.scrollTop = 0; size();
    if (say) tell(i);
    const sx = (X[i] - S.cx) * S.k + S.w / 2, sy = (Y[i] - S.cy) * S.k + S.h / 2, low = innerWidth < 760 ? S.h * 0.36 : S.h - 90;
    if (centre || sx < 30 || sx > S.w - 30 || sy < 30 || sy > low) fly(X[i], Y[i] + (innerWidth < 760 ? S.h * 0.3 / Math.max(S.k, centre ? 0.9 : S.k) : 0), Math.max(S.k, centre ? 0.9 : S.k));
    paint();
  }
  const tell = i => { live.textContent = [N[i].label, kindName[N[i].kind], t('connections', { n: adj[i].length }), t('memories', { n: N[i].memories })].join(', '); };
  function go(i) {
    if (S.shown.has(i) && S.live[i]) return select(i, { centre: true });
    S.shown.add(i); S.off.delete(N[i].kind); S.t0 = 0; S.t1 = M; chips(); times(); filter(); lay('keep');
    wanted.then = () => select(i, { centre: true });
    if (!worker) wanted.then();
  }
  function expand(i) {
    const add = [...new Set(hiddenOf(i))].sort((a, b) => rank[a] - rank[b]).slice(0, 40);
    if (!add.length) return;
    add.forEach(j => S.shown.add(j));
    live.textContent = t('added', { n: add.length, name: N[i].label });
    filter(); lay('keep'); select(i, { say: false });
  }
  function around(i) { S.focus = i; S.all = false; if (!S.hops) S.hops = 2; hopButtons(); rebuild(); select(i, { say: false }); }

  // ---- the same as a list ---------------------------------------------------
  let rows = 50;
  function drawList() {
    const body = el('tbody');
    for (const i of S.nodes.slice(0, rows)) {
      const rel = adj[i].filter(k => S.live[other(k, i)]).sort((a, b) => E[b].memories - E[a].memories);
      const words = rel.slice(0, 3).map(k => (E[k].a === i ? `${E[k].verb} ${N[E[k].b].label}` : `${N[E[k].a].label} ${E[k].verb} ${N[i].label}`)).join('; ');
      body.append(el('tr', {}, el('td', {}, el('button', { type: 'button', onclick: () => select(i) }, el('bdi', {}, N[i].label))), el('td', {}, kindName[N[i].kind]), el('td', { className: 'rels' }, el('bdi', {}, words + (rel.length > 3 ? `; ${t('n_more', { n: rel.length - 3 })}` : ''))), el('td', {}, num(N[i].memories))));
    }
    const head = el('tr', {}, ...[t('name'), t('kind'), t('connections_title'), t('memories_title')].map((title, q) => el('th', { scope: 'col', className: q === 2 ? 'rels' : '' }, title)));
    list.replaceChildren(el('table', {}, el('caption', { className: 'vh' }, $('status').textContent), el('thead', {}, head), body));
    if (rows < S.nodes.length) list.append(el('button', { type: 'button', className: 'more', onclick: () => { rows += 50; drawList(); } }, t('more')));
  }
  function showAs(as) {
    S.as = as; rows = 50;
    $('stage').hidden = as === 'list'; list.hidden = as !== 'list';
    document.querySelectorAll('[data-as]').forEach(b => b.setAttribute('aria-pressed', b.dataset.as === as));
    if (as === 'list') drawList(); else size();
  }

  // ---- controls -------------------------------------------------------------
  function chips() {
    $('chips').replaceChildren(...KINDS.map(k => el('button', { type: 'button', 'aria-pressed': String(!S.off.has(k.id)), onclick: e => { if (S.off.has(k.id)) S.off.delete(k.id); else S.off.add(k.id); e.currentTarget.setAttribute('aria-pressed', String(!S.off.has(k.id))); filter(); } }, mark(k.id), k.name, el('span', {}, num(N.filter(n => n.kind === k.id).length)))));
  }
  function hopButtons() { document.querySelectorAll('[data-hops]').forEach(b => b.setAttribute('aria-pressed', String(+b.dataset.hops === S.hops))); }
  function times() {
    $('t0').value = S.t0; $('t1').value = S.t1;
    $('since').textContent = fmt.format(month(S.t0)); $('until').textContent = S.t1 === M ? t('today') : fmt.format(month(S.t1));
    $('t0').setAttribute('aria-valuetext', $('since').textContent); $('t1').setAttribute('aria-valuetext', $('until').textContent);
    const g = months.getContext('2d'), w = months.width = months.clientWidth * dpr, h = months.height = months.clientHeight * dpr, bins = new Array(M + 1).fill(0);
    for (const e of E) bins[Math.min(M, Math.max(0, Math.round((e.from - month(0)) / 2629800000)))] += e.memories;
    const top = Math.max(1, ...bins);
    bins.forEach((b, i) => { g.fillStyle = C.accent; g.globalAlpha = i >= S.t0 && i <= S.t1 ? 0.75 : 0.18; const bh = Math.sqrt(b / top) * h; g.fillRect(i * w / (M + 1), h - bh, w / (M + 1) - dpr, bh); });
  }
  for (const id of ['t0', 't1']) $(id).addEventListener('input', e => {
    S[id] = +e.target.value;
    if (S.t0 > S.t1) S[id === 't0' ? 't1' : 't0'] = S[id];
    times(); filter();
  });
  document.querySelectorAll('[data-hops]').forEach(b => b.addEventListener('click', () => { S.hops = +b.dataset.hops; S.all = false; hopButtons(); rebuild(); }));
  document.querySelectorAll('[data-as]').forEach(b => b.addEventListener('click', () => showAs(b.dataset.as)));
  const zoomBy = { in: () => zoomAt(1.5, S.w / 2, S.h / 2, true), out: () => zoomAt(1 / 1.5, S.w / 2, S.h / 2, true), fit: () => fit() };
  document.querySelectorAll('[data-zoom]').forEach(b => b.addEventListener('click', () => zoomBy[b.dataset.zoom]()));
  const recolour = () => { colours(); times(); paint(); };
  darkScheme.addEventListener('change', recolour);

  // Search: a combobox.
  const q = $('q'), hits = $('hits');
  let found = [], at = -1;
  function look() {
    const want = q.value.trim().toLowerCase();
    found = !want ? [] : byWeight.map(i => [i, N[i].label.toLowerCase().indexOf(want)]).filter(p => p[1] >= 0).sort((a, b) => (a[1] > 0) - (b[1] > 0) || rank[a[0]] - rank[b[0]]).slice(0, 8).map(p => p[0]);
    at = found.length ? 0 : -1;
    hits.replaceChildren(...(want && !found.length ? [el('li', {}, t('no_name'))] : found.map((i, p) => el('li', { role: 'option', id: 'hit' + p, onpointerdown: e => { e.preventDefault(); pick(p); } }, mark(N[i].kind), el('bdi', {}, N[i].label), el('small', {}, t('memories', { n: N[i].memories }))))));
    hits.hidden = !want; q.setAttribute('aria-expanded', String(!!want));
    markHit();
  }
  function markHit() { [...hits.children].forEach((c, p) => c.setAttribute('aria-selected', String(p === at))); if (at >= 0) q.setAttribute('aria-activedescendant', 'hit' + at); else q.removeAttribute('aria-activedescendant'); }
  function pick(p) { if (p < 0) return; const i = found[p]; q.value = ''; look(); go(i); view.focus(); }
  q.addEventListener('input', look);
  q.addEventListener('blur', () => { hits.hidden = true; q.setAttribute('aria-expanded', 'false'); });
  q.addEventListener('keydown', e => {
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') { at = (at + (e.key === 'ArrowDown' ? 1 : -1) + found.length) % Math.max(1, found.length); markHit(); e.preventDefault(); }
    else if (e.key === 'Enter') pick(at);
    else if (e.key === 'Escape') { q.value = ''; look(); view.focus(); }
  });

  // Pointer: drag pans, wheel zooms, two fingers pinch, click opens, double click expands.
  const down = new Map();
  let held = -1, moved = 0, pinch = 0;
  function hit(x, y) {
    let best = -1, score = 1e9;
    for (const i of S.nodes) { const d = Math.hypot(px[i] - x, py[i] - y) - pr[i]; if (d < 9 && d < score) { score = d; best = i; } }
    return best;
  }
  const local = e => { const r = view.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
  view.addEventListener('pointerdown', e => { const p = local(e); view.setPointerCapture(e.pointerId); down.set(e.pointerId, p); held = down.size === 1 ? hit(...p) : -1; moved = 0; pinch = 0; });
  view.addEventListener('pointermove', e => {
    const [x, y] = local(e), was = down.get(e.pointerId);
    if (!was) { const i = hit(x, y); if (i !== S.hot) { S.hot = i; view.classList.toggle('on', i >= 0); paint(); } return; }
    down.set(e.pointerId, [x, y]);
    if (down.size === 2) {
      const [[ax, ay], [bx, by]] = [...down.values()], d = Math.hypot(ax - bx, ay - by);
      if (pinch) zoomAt(d / pinch, (ax + bx) / 2, (ay + by) / 2, false);
      pinch = d; moved = 99; return;
    }
    moved += Math.abs(x - was[0]) + Math.abs(y - was[1]);
    if (moved < 4) return;
    view.classList.add('drag');
    if (held >= 0) { X[held] += (x - was[0]) / S.k; Y[held] += (y - was[1]) / S.k; } else { S.cx -= (x - was[0]) / S.k; S.cy -= (y - was[1]) / S.k; }
    paint();
  });
  const up = e => { if (!down.delete(e.pointerId)) return; view.classList.remove('drag'); if (moved < 4 && e.type === 'pointerup') { if (held >= 0) select(held); else if (S.sel >= 0) select(-1); } held = -1; };
  view.addEventListener('pointerup', up); view.addEventListener('pointercancel', up);
  view.addEventListener('pointerleave', () => { if (S.hot >= 0) { S.hot = -1; paint(); } });
  view.addEventListener('dblclick', e => { const i = hit(...local(e)); if (i >= 0) expand(i); else zoomAt(1.6, ...local(e), true); });
  view.addEventListener('wheel', e => { e.preventDefault(); zoomAt(Math.exp(-e.deltaY * (e.ctrlKey ? 0.01 : 0.0016)), ...local(e), false); }, { passive: false });

  // Keyboard: arrows go to the nearest entity in that direction.
  const WAY = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  view.addEventListener('keydown', e => {
    const way = WAY[e.key];
    if (way && e.shiftKey) fly(S.cx + way[0] * 120 / S.k, S.cy + way[1] * 120 / S.k, S.k);
    else if (way) {
      const from = S.hot >= 0 ? S.hot : S.sel >= 0 ? S.sel : S.focus;
      let best = -1, score = 1e9;
      for (const i of S.nodes) {
        const dx = X[i] - X[from], dy = Y[i] - Y[from], along = dx * way[0] + dy * way[1], off = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
        if (i !== from && along > 0 && off < along * 1.5 && along + off * 2 < score) { score = along + off * 2; best = i; }
      }
      if (best >= 0) { S.hot = best; tell(best); if (px[best] < 60 || px[best] > S.w - 60 || py[best] < 60 || py[best] > S.h - 120) fly(X[best], Y[best], S.k); paint(); }
    } else if (e.key === 'Enter' || e.key === ' ') { const i = S.hot >= 0 ? S.hot : S.focus; S.hot = -1; select(i); } else if (e.key === 'e') { const i = S.hot >= 0 ? S.hot : S.sel; if (i >= 0) expand(i); } else if (e.key === '+' || e.key === '=') zoomBy.in();
    else if (e.key === '-') zoomBy.out(); else if (e.key === '0') fit(); else return;
    e.preventDefault();
  });
  document.addEventListener('keydown', e => {
    if (e.target.matches('input')) return;
    if (document.querySelector('dialog[open]') || e.ctrlKey || e.metaKey) return;
    if (e.key === 'l') showAs(S.as === 'list' ? 'graph' : 'list');
    else if (e.key === 'Escape') { S.hot = -1; select(-1); }
  });

  function size() {
    const w = view.clientWidth, h = view.clientHeight, d = Math.min(2, devicePixelRatio || 1);
    if (!w || (w === S.w && h === S.h && d === dpr)) return;
    if (d !== dpr) marks = new Map();
    dpr = d; S.w = w; S.h = h; view.width = w * dpr; view.height = h * dpr;
    const base = view.getBoundingClientRect();
    S.boxes = ['.status', '.zoom', '.time'].map(s => { const r = document.querySelector(s).getBoundingClientRect(); return [r.left - base.left - 4, r.top - base.top - 4, r.width + 8, r.height + 8]; });
    draw();
  }
  for (const id of ['t0', 't1']) { $(id).max = M; $(id).value = S[id]; }
  const wanted0 = (ask.get('subject') || '').trim().toLowerCase(), start = wanted0 ? N.findIndex(n => n.label.toLowerCase() === wanted0) : -1;
  if (start >= 0) S.focus = start;
  S.hops = ask.has('all') ? 0 : 2;
  choose(); colours(); size(); chips(); hopButtons(); recolour();
  new ResizeObserver(size).observe(view);
  rebuild();
  if (start >= 0) wanted.then = () => select(start, { say: false });
  Object.assign(timing, { select, go, expand, fit, fly, index, X, Y, N, paint });
}
