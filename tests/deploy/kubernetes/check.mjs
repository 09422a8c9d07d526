// Objects of Kubernetes, a JSON array on standard input, against the published schemas: prints what is wrong, and fails then.
// Schemas let unknown fields pass, which an API server drops; here they are those that no check has looked at.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const PACKAGES = {
  "gateway.networking.k8s.io": "@kubernetes-models/gateway-api",
  "keda.sh": "@kubernetes-models/keda",
  "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
};

const MODULES = new Set(["gateway.networking.k8s.io"]); // in packages that cannot be required

async function modelOf({ apiVersion, kind }) {
  const group = apiVersion.includes("/") ? apiVersion.split("/")[0] : "";
  const path = `${PACKAGES[group] ?? "kubernetes-models"}/${apiVersion}/${kind}`;
  return (MODULES.has(group) ? await import(path) : require(path))[kind];
}

// `value`, and in `unread` the paths of its fields until they are read.
function watched(value, path, unread) {
  if (typeof value !== "object" || value === null) return value;
  const fields = new Map(Object.entries(value).map(([name, field]) => [name, watched(field, `${path}.${name}`, unread)]));
  if (!Array.isArray(value)) for (const name of fields.keys()) unread.add(`${path}.${name}`);
  return new Proxy(value, {
    get(target, name) {
      unread.delete(`${path}.${String(name)}`);
      return fields.get(name) ?? target[name];
    },
  });
}

const errors = [];
for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const name = `${object.kind} ${object.metadata.name}`;
  const unread = new Set();
  try {
    (await modelOf(object)).prototype.validate.call(watched(object, name, unread));
  } catch (error) {
    errors.push(`${name}: ${error.message}`);
  }
  for (const path of unread) errors.push(`${path} is unknown`);
}
console.log(errors.join("\n"));
process.exit(errors.length ? 1 : 0);
