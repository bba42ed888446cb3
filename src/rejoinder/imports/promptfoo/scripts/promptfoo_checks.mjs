// Runs a JavaScript assertion of promptfoo as a `code` check of rejoinder: `node promptfoo_checks.mjs CODE [OPTIONS]`.
// CODE is an expression, a function's body of several lines, or file://PATH[:FUNCTION]. Standard input has the case and
// the reply; the verdict is printed as JSON. Code that throws ends with exit code 1, which is an error of the check.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [code, written] = process.argv.slice(2);
const options = written ? JSON.parse(written) : {};
const given = JSON.parse(readFileSync(0, "utf8"));

// A reply that only calls tools is the list of its calls, and with a format of JSON, or a transform, it is the value.
function outputOf({ candidate_answer: text, tool_calls: calls }) {
  if (!text && calls?.length) {
    return calls.map((call) => ({
      id: call.id,
      type: "function",
      function: { name: call.name, arguments: call.arguments },
    }));
  }
  if (options.json) {
    try {
      const value = JSON.parse(text);
      return options.json === "structures" && (typeof value !== "object" || value === null) ? text : value;
    } catch {
      return text;
    }
  }
  return text;
}

// `return` goes before the last expression of a line that begins with declarations.
function bodyOf(source) {
  const line = source.trim().replace(/;+\s*$/, "");
  if (line.includes("\n")) return source;
  if (!/^(const|let|var)\s/.test(line)) return `return ${line}`;
  const quoted = line.replace(/(["'`])(?:\\.|(?!\1).)*\1/g, (text) => text.replace(/;/g, "_"));
  const last = quoted.lastIndexOf(";");
  return last < 0 ? line : `${line.slice(0, last + 1)} return ${line.slice(last + 1).trim()}`;
}

async function functionOf(source) {
  if (!source.startsWith("file://")) return new Function("output", "context", "process", "require", bodyOf(source));
  const [, path, name] = source.slice("file://".length).match(/^(.*?\.[cm]?[jt]s)(?::(\w+))?$/);
  const found = await import(pathToFileURL(resolve(path)));
  const whole = found.default?.default ?? found.default;
  return name ? (found[name] ?? found.default?.[name]) : whole;
}

const vars = given.vars ?? {};
const context = {
  vars,
  prompt: given.question,
  test: { vars, metadata: given.metadata ?? {} },
  config: options.config,
  metadata: given.metadata ?? {},
  provider: { id: () => given.target, label: given.target },
  providerResponse: { output: given.candidate_answer, cost: given.cost, tokenUsage: given.usage },
};

const log = console.log;
console.log = console.error; // standard output is the verdict's
const check = await functionOf(code);
const require = createRequire(resolve("promptfoo_checks.mjs"));
const result = await check(outputOf(given), context, process, require);
if (typeof result === "number") {
  const passed = options.threshold === undefined ? result > 0 : result >= options.threshold;
  log(JSON.stringify({ passed, score: result }));
} else if (typeof result === "boolean") {
  log(JSON.stringify({ passed: result }));
} else if (result && typeof result === "object" && typeof result.pass === "boolean") {
  log(JSON.stringify({ passed: result.pass, score: result.score ?? Number(result.pass), reason: result.reason ?? "" }));
} else {
  throw new Error(`an assertion returns true, false, a number or {pass, score, reason}, and not ${JSON.stringify(result)}`);
}
