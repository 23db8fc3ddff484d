// Time limits, repeated attempts and signals, against a small server that misbehaves as it is told.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import * as api from "../dist/esm/index.js";

/** Start a server that gives these answers one after the other, and the last one for all further requests. */
async function misbehaving(...answers) {
  const requests = [];
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      const answer = answers[Math.min(requests.length, answers.length - 1)];
      requests.push(`${request.method} ${request.url}`);
      if (answer === "silence") return;
      if (answer === "hang up") return void request.socket.destroy();
      const { status = 200, headers = {}, body = {} } = answer;
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(typeof body === "string" ? body : JSON.stringify(body));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A test that fails leaves its server open, which must not keep the process.
  server.unref?.();
  const url = `http://127.0.0.1:${server.address().port}`;
  const end = () => new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections?.();
  });
  return { url, requests, end };
}

const BUSY = { status: 503, body: { error: { code: "unavailable", message: "unavailable: busy" } } };
const LIMITED = { status: 429, headers: { "retry-after": "0" }, body: { error: { code: "rate_limited", message: "slower" } } };
const STATS = { body: { owner: "did:example:ada" } };

test("a read is sent again after a failure that may pass", async () => {
  const server = await misbehaving(BUSY, "hang up", STATS);
  assert.equal((await new api.Memoranda(server.url).stats()).owner, "did:example:ada");
  assert.equal(server.requests.length, 3);
  await server.end();
});

test("a write that may have been carried out is sent once", async () => {
  for (const failure of [BUSY, "hang up"]) {
    const server = await misbehaving(failure);
    await assert.rejects(new api.Memoranda(server.url).remember("x"), api.StoreUnavailable);
    assert.equal(server.requests.length, 1);
    await server.end();
  }
});

test("a write over a rate limit is sent again when the server says", async () => {
  const server = await misbehaving(LIMITED, { body: { id: "urn:ump:1", result: "created" } });
  assert.equal((await new api.Memoranda(server.url).remember("x")).result, "created");
  assert.equal(server.requests.length, 2);
  await server.end();
});

test("attempts end with their number, and with a wait that is too long", async () => {
  const busy = await misbehaving(BUSY);
  await assert.rejects(new api.Memoranda(busy.url).stats({ retries: 1 }), api.StoreUnavailable);
  assert.equal(busy.requests.length, 2);
  await busy.end();
  const patient = await misbehaving({ ...LIMITED, headers: { "retry-after": "3600" } });
  await assert.rejects(new api.Memoranda(patient.url).stats(), (error) => error instanceof api.RateLimited && error.retryAfterSeconds === 3600);
  assert.equal(patient.requests.length, 1);
  await patient.end();
});

test("a silent server costs the time limit once", async () => {
  const server = await misbehaving("silence");
  // Counted here, because a request that ends this soon may not reach the server.
  let attempts = 0;
  const counted = (...parameters) => {
    attempts += 1;
    return fetch(...parameters);
  };
  const m = new api.Memoranda(server.url, { timeoutMs: 50, fetch: counted });
  await assert.rejects(m.stats(), (error) => error instanceof api.TimedOut && error instanceof api.StoreUnavailable);
  assert.equal(attempts, 1);
  await server.end();
});

test("a signal ends every kind of call with its own reason", async () => {
  const server = await misbehaving("silence");
  const m = new api.Memoranda(server.url);
  const reason = new Error("the user left");
  const calls = [
    (options) => m.remember("x", options),
    (options) => m.recall("x", options),
    (options) => m.get("x", options),
    (options) => m.cal("RECALL beliefs", options),
    (options) => m.grains.put({ type: "belief" }, options),
    (options) => m.oams.recall("x", options),
    (options) => m.call("stats", {}, options),
    async (options) => {
      for await (const _ of m.all(options));
    },
  ];
  for (const call of calls) {
    const stop = new AbortController();
    const ended = assert.rejects(call({ signal: stop.signal }), reason);
    stop.abort(reason);
    await ended;
    await assert.rejects(call({ signal: AbortSignal.abort(reason) }), reason);
  }
  await server.end();
});

test("a signal ends the wait between two attempts", async () => {
  const server = await misbehaving({ ...LIMITED, headers: { "retry-after": "29" } });
  const stop = new AbortController();
  const ended = assert.rejects(new api.Memoranda(server.url).stats({ signal: stop.signal }), { name: "AbortError" });
  while (server.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  stop.abort();
  await ended;
  await server.end();
});

test("an answer that is no document of Memoranda is an error", async () => {
  for (const body of ["<html>", ""]) {
    const server = await misbehaving({ body });
    await assert.rejects(new api.Memoranda(server.url).stats(), api.StoreUnavailable);
    await server.end();
  }
});

test("a redirect is not followed, so that no key and no memory goes elsewhere", async () => {
  const other = await misbehaving(STATS);
  for (const status of [301, 302, 303, 307, 308]) {
    const server = await misbehaving({ status, headers: { location: `${other.url}/ump/stats` } });
    const m = new api.Memoranda(server.url, { key: "mk_secret" });
    await assert.rejects(m.stats(), api.StoreUnavailable);
    await assert.rejects(m.remember("private"), /redirects to another address/);
    await server.end();
  }
  assert.equal(other.requests.length, 0);
  await other.end();
});

test("an answer without an end is given up", async () => {
  const part = new TextEncoder().encode("x".repeat(1_048_576));
  let sent = 0;
  const endless = () =>
    new Response(new ReadableStream({
      pull(control) {
        sent += 1;
        control.enqueue(part);
      },
    }));
  const m = new api.Memoranda("http://127.0.0.1:9", { fetch: async () => endless(), retries: 0 });
  await assert.rejects(m.stats(), /over the limit/);
  await assert.rejects(async () => {
    for await (const _ of m.calStream("RECALL beliefs"));
  }, /over the limit/);
  assert.ok(sent < 200, `${sent} parts were read`);
});

test("a page that a server repeats ends a walk", async () => {
  const server = await misbehaving({ body: { records: [], next_cursor: "a" } });
  await assert.rejects(async () => {
    for await (const _ of new api.Memoranda(server.url).all());
  }, /repeats a page/);
  assert.equal(server.requests.length, 2);
  await server.end();
  const old = await misbehaving({ body: { records: [] } });
  for await (const _ of new api.Memoranda(old.url).all());
  assert.equal(old.requests.length, 1);
  await old.end();
});

test("the code of an error is looked up among the known ones alone", async () => {
  for (const code of ["constructor", "__proto__", "toString", "valueOf"]) {
    const server = await misbehaving({ status: 400, body: { error: { code, message: "x" } } });
    await assert.rejects(new api.Memoranda(server.url).stats(), (error) => error instanceof api.MemorandaError && error.code === code);
    await server.end();
  }
});
