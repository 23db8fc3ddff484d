// The official TypeScript client: node scenario.mjs stdio COMMAND ARGS… | node scenario.mjs http URL CREDENTIAL
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [, , by, target, ...rest] = process.argv;
const transport =
  by === "stdio"
    ? new StdioClientTransport({ command: target, args: rest, env: process.env })
    : new StreamableHTTPClientTransport(new URL(target), {
        requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } },
      });
const client = new Client({ name: "typescript", version: "1" });
await client.connect(transport);

const text = (answer) => answer.content.map((each) => each.text).join("\n");
const { tools } = await client.listTools();
assert.ok(tools.every((tool) => /^[a-zA-Z0-9_-]{1,64}$/.test(tool.name)));
const said = `use pnpm, never npm (${by}, TypeScript)`;
const remembered = await client.callTool({ name: "ump_remember", arguments: { text: said, kind: "procedural" } });
assert.ok(!remembered.isError, text(remembered));
const recalled = await client.callTool({ name: "ump.recall", arguments: { query: "pnpm or npm?" } });
assert.ok(text(recalled).includes(said), text(recalled));
const listed = await client.callTool({ name: "ump_list", arguments: {} });
assert.ok(text(listed).includes(said), text(listed));
const refused = await client.callTool({ name: "ump_forget", arguments: { id: "urn:ump:nothing" } });
assert.equal(refused.isError, true);
const { resources } = await client.listResources();
assert.ok(Array.isArray(resources));
const { prompts } = await client.listPrompts();
assert.ok(prompts.length > 0);
await client.ping();
await client.close();
console.log(`TypeScript client over ${by}: ${tools.length} tools`);
