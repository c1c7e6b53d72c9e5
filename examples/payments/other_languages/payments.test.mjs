// The test of the service in Node: `node --test payments.test.mjs`. Only the standard library is needed.
import assert from "node:assert";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";

const python = process.env.PYTHON ?? "python3";

// Brokers end when their input does: with `stop`, and with this process.
async function start() {
  const running = spawn(python, ["-m", "odradek.testing"], { stdio: ["pipe", "pipe", "inherit"] });
  const [line] = await once(createInterface({ input: running.stdout }), "line");
  const { bootstrap_servers, control } = JSON.parse(line);
  async function ask(method, path, body) {
    const content = method === "GET" ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
    const response = await fetch(control + path, { method, ...content });
    const answer = await response.json();
    assert.strictEqual(response.status, 200, answer.error);
    return answer;
  }
  return { bootstrap_servers, ask, stop: () => running.stdin.end() };
}

test("an order is paid once", async () => {
  const broker = await start();
  const orders = ["order 1", "order 2"].map((order) => Buffer.from(order).toString("base64"));
  await broker.ask("POST", "/v1/topics/orders/records", { values: orders });
  const fault = await broker.ask("POST", "/v1/faults", { kind: "drop", api: "Produce", after: true, topic: "payments", times: 1 });
  const service = spawn(python, ["../service.py", broker.bootstrap_servers]);
  try {
    await broker.ask("GET", "/v1/groups/payments?lag=0");
    assert.strictEqual((await broker.ask("GET", `/v1/faults/${fault.id}`)).count, 1);
    assert.strictEqual((await broker.ask("GET", "/v1/topics/payments/records")).records.length, 2);
  } finally {
    service.kill();
    broker.stop();
  }
});
