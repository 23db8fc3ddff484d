// The package as CommonJS, for programs that use require().
const assert = require("node:assert/strict");
const { test } = require("node:test");
const { Memoranda, NotFound } = require("../dist/cjs/index.js");

test("a program with require() remembers and recalls", async () => {
  const m = new Memoranda(process.env.MEMORANDA_URL, { key: process.env.MEMORANDA_KEY });
  const { id } = await m.remember("require works", { project: "cjs" });
  assert.equal((await m.get(id)).text, "require works");
  await assert.rejects(m.get("urn:ump:zzzz"), NotFound);
});
