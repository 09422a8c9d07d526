// s3rver with a bucket "jobs": node server.js FOLDER PORT. It takes any signature with the key S3RVER.
"use strict";
const crypto = require("crypto");
const fs = require("fs");
const path = require("path");
const S3rver = require("s3rver");

const [directory, port] = process.argv.slice(2);
const server = new S3rver({
  address: "127.0.0.1",
  port: Number(port),
  directory,
  silent: true,
  vhostBuckets: false,
  configureBuckets: [{ name: "jobs" }],
});

// S3's objects appear whole; s3rver writes them in place, and answers before they are written.
let drafts = 0;
server.store.putObject = async function (object) {
  const parts = [];
  for await (const part of object.content) parts.push(part); // throws where the sender dies
  const content = Buffer.concat(parts);
  const file = this.getResourcePath(object.bucket, object.key, "object");
  const draft = path.join(directory, `draft-${process.pid}-${drafts++}`);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(draft, content);
  fs.renameSync(draft, file);
  const md5 = crypto.createHash("md5").update(content).digest("hex");
  await this.putMetadata(object.bucket, object.key, object.metadata, md5);
  return { size: content.length, md5 };
};

server.run().catch((error) => {
  console.error(error);
  process.exit(1);
});
