// Calls methods of the TypeScript client: each line of the input is ["name", arguments], each line of the output an answer.
import { createInterface } from "node:readline";

const [, , path, url, key] = process.argv;
const { Memoranda } = await import(path);
const client = new Memoranda(url, { key });
for await (const line of createInterface({ input: process.stdin })) {
  const [name, fields] = JSON.parse(line);
  try {
    const [method, owner] = name.startsWith("oams.") ? [name.slice(5), client.oams] : [name, client];
    const result = await owner[method](...fields);
    console.log(JSON.stringify({ result }));
  } catch (error) {
    console.log(JSON.stringify({ error: `${error.code ?? error.name}: ${error.message}` }));
  }
}
