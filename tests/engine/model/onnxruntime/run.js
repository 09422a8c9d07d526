// Runs the samples of a folder: node run.js FOLDER. Each is a model, an image and what our reference makes of it, floats of
// [3, height, width]. Prints the largest difference of each, as a part of its largest value; more than 1e-4 is a failure.
"use strict";
const fs = require("fs");
const path = require("path");
const ort = require("onnxruntime-node");

const TOLERANCE = 1e-4;

const readFloats = (file) => {
  const bytes = fs.readFileSync(file);
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
};

async function difference(folder, { name, width, height, scale }) {
  const session = await ort.InferenceSession.create(path.join(folder, `${name}.onnx`));
  const image = new ort.Tensor("float32", readFloats(path.join(folder, `${name}.in`)), [1, 3, height, width]);
  const { result } = await session.run({ image });
  const expected = readFloats(path.join(folder, `${name}.out`));
  const dims = [1, 3, height * scale, width * scale];
  if (String(result.dims) !== String(dims)) throw new Error(`${name}: gives ${result.dims}, not ${dims}`);
  let most = 0;
  let largest = 1;
  expected.forEach((value, i) => {
    // Written so that a NaN is a difference.
    if (!(Math.abs(value - result.data[i]) <= most)) most = Math.abs(value - result.data[i]);
    largest = Math.max(largest, Math.abs(value));
  });
  return most / largest;
}

async function main(folder) {
  const samples = JSON.parse(fs.readFileSync(path.join(folder, "samples.json")));
  if (samples.length === 0) throw new Error("no samples");
  for (const sample of samples) {
    const most = await difference(folder, sample);
    console.log(`${sample.name}: ${most}`);
    if (!(most <= TOLERANCE)) process.exitCode = 1;
  }
}

main(process.argv[2]);
