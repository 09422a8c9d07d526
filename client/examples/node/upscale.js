// Upscales an image as a web backend would: streaming both ways, with retries where they are safe.
import { randomUUID } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

const CHUNK_BYTES = 128 * 1024;
const FORMATS = {
  '.png': 'IMAGE_FORMAT_PNG',
  '.jpg': 'IMAGE_FORMAT_JPEG',
  '.jpeg': 'IMAGE_FORMAT_JPEG',
  '.webp': 'IMAGE_FORMAT_WEBP',
  '.avif': 'IMAGE_FORMAT_AVIF',
  '.jxl': 'IMAGE_FORMAT_JXL',
  '.tif': 'IMAGE_FORMAT_TIFF',
};

const protoFolder = process.env.UPSCALE_PROTO ??
  path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../../proto');
const definitions = protoLoader.loadSync(
  ['upscale/v1/upscale.proto', 'google/rpc/status.proto', 'google/rpc/error_details.proto'],
  { includeDirs: [protoFolder], keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true },
);
const { UpscaleService } = grpc.loadPackageDefinition(definitions).upscale.v1;

// A client for the process to share.
export function makeClient(server) {
  return new UpscaleService(server, grpc.credentials.createInsecure(), { 'grpc.enable_http_proxy': 0 });
}

// { reason, retryDelayMs } of a gRPC error, as far as the server sent them.
export function errorDetails(error) {
  const result = {};
  for (const bytes of error.metadata?.get('grpc-status-details-bin') ?? []) {
    for (const detail of definitions['google.rpc.Status'].deserialize(bytes).details) {
      const definition = definitions[detail.type_url.split('/').pop()];
      const message = definition?.deserialize(detail.value);
      if (detail.type_url.endsWith('/google.rpc.ErrorInfo')) result.reason = message.reason;
      if (detail.type_url.endsWith('/google.rpc.RetryInfo')) {
        const { seconds, nanos } = message.retry_delay;
        result.retryDelayMs = seconds * 1000 + nanos / 1e6;
      }
    }
  }
  return result;
}

// The upload: the options, then the file in chunks, as fast as the server reads them.
async function send(call, source, options) {
  const write = (message) => new Promise((resolve) => {
    // After the call's end no callback comes; nobody waits for this promise then.
    if (call.write(message)) resolve(); else call.once('drain', resolve);
  });
  const { size } = await source.stat();
  await write({ start: { options, total_bytes: size, report_progress: true } });
  for await (const chunk of source.createReadStream({ start: 0, highWaterMark: CHUNK_BYTES, autoClose: false })) {
    await write({ chunk });
  }
  call.end();
}

// Writes the result to `sink`; returns { header, summary }.
async function receive(call, sink, onProgress) {
  let header, summary, receivedBytes = 0;
  for await (const response of call) {
    if (response.payload === 'header') header = response.header;
    if (response.payload === 'progress') onProgress(response.progress);
    if (response.payload === 'chunk') {
      await sink.writeFile(response.chunk);
      receivedBytes += response.chunk.length;
    }
    if (response.payload === 'summary') summary = response.summary;
  }
  if (summary?.result_bytes !== receivedBytes) throw new Error('the result is incomplete');
  return { header, summary };
}

async function upscaleOnce(client, sourcePath, sinkPath, options, timeoutMs, onProgress) {
  const source = await open(sourcePath, 'r');
  const sink = await open(sinkPath, 'wx');
  const call = client.UpscaleImage({ deadline: Date.now() + timeoutMs });
  try {
    const received = receive(call, sink, onProgress);
    // A refusal ends `received` while the upload may still wait for room; an error of the file ends the upload.
    const failedUpload = new Promise((_, reject) => { send(call, source, options).catch(reject); });
    return await Promise.race([received, failedUpload]);
  } finally {
    call.on('error', () => {});  // The cancellation of a call that failed here.
    call.cancel();
    await sink.close();
    await source.close();
  }
}

// Upscales a file into another one, which appears only when it is complete.
export async function upscaleFile(client, sourcePath, resultPath, options,
  { timeoutMs = 300_000, tries = 5, onProgress = () => {} } = {}) {
  const sinkPath = path.join(path.dirname(resultPath), `.${randomUUID()}.part`);
  for (let attempt = 1; ; ++attempt) {
    try {
      const outcome = await upscaleOnce(client, sourcePath, sinkPath, options, timeoutMs, onProgress);
      await rename(sinkPath, resultPath);
      return outcome;
    } catch (error) {
      await rm(sinkPath, { force: true });
      const { retryDelayMs } = errorDetails(error);
      const overloaded = error.code === grpc.status.RESOURCE_EXHAUSTED && retryDelayMs !== undefined;
      const retryable = overloaded || error.code === grpc.status.UNAVAILABLE;
      if (!retryable || attempt === tries) throw error;
      const backoffMs = 200 * 2 ** attempt * (0.5 + 0.5 * Math.random());
      await sleep((retryDelayMs ?? 0) + backoffMs);
    }
  }
}

async function main() {
  const { values, positionals: [source, result] } = parseArgs({
    allowPositionals: true,
    options: {
      scale: { type: 'string' },
      noise: { type: 'string', default: '-1' },
      model: { type: 'string', default: '' },
      server: { type: 'string', default: process.env.UPSCALE_SERVER ?? '127.0.0.1:8001' },
      tries: { type: 'string', default: '5' },
    },
  });
  if (result === undefined) throw new Error('usage: node upscale.js SOURCE RESULT [--scale N] [--server HOST:PORT]');
  const options = {
    model: values.model,
    noise_level: Number(values.noise),
    format: FORMATS[path.extname(result).toLowerCase()] ?? 'IMAGE_FORMAT_UNSPECIFIED',
    ...(values.scale && { scale: Number(values.scale) }),
  };
  const onProgress = ({ tiles_done, tiles }) => {
    if (process.stderr.isTTY) process.stderr.write(`\rtile ${tiles_done}/${tiles}`);
  };
  const client = makeClient(values.server);
  try {
    const { header, summary } =
      await upscaleFile(client, source, result, options, { tries: Number(values.tries), onProgress });
    console.log(`${result}: ${header.source_width_px}x${header.source_height_px} -> ` +
      `${header.result_width_px}x${header.result_height_px}, ${summary.result_bytes} bytes, ` +
      `${header.model} on ${summary.device}`);
  } catch (error) {
    const { reason } = errorDetails(error);
    error.message = `${source}: ${error.message}${reason ? ` [${reason}]` : ''}`;
    throw error;
  } finally {
    client.close();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  main().catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}
