#!/usr/bin/env node
// Signs and verifies messages with mailauth, an implementation that is not ours.
//
//     mailauth.js verify KEYS FILE
//     mailauth.js sign rsa|ed25519 SELECTOR DOMAIN KEYFILE FILE
//
// FILE holds messages with CRLF line ends, one behind the other, each behind its length in octets: four octets, the highest
// first. KEYS is a file with a line `name TXTVALUE` for each key, in place of DNS. `verify` prints `pass` or `fail: why` for each
// message, of its first signature; `sign` writes FILE.made, the same messages signed, with the four pairs of canonical forms in
// turn. NODE_PATH leads to the package.
'use strict';

const fs = require('fs');
const { dkimVerify } = require('mailauth/lib/dkim/verify');
const { dkimSign } = require('mailauth/lib/dkim/sign');

const FORMS = ['relaxed/relaxed', 'simple/simple', 'relaxed/simple', 'simple/relaxed'];
const SIGNED = 'from:to:subject:date:x-long:x-eight';

function* messages(path) {
  const content = fs.readFileSync(path);
  for (let at = 0; at < content.length; ) {
    const length = content.readUInt32BE(at);
    yield content.subarray(at + 4, at + 4 + length);
    at += 4 + length;
  }
}

async function verify(keys, file) {
  const records = new Map();
  for (const line of fs.readFileSync(keys, 'utf8').split('\n').filter(Boolean)) {
    const blank = line.indexOf(' ');
    records.set(line.slice(0, blank), line.slice(blank + 1));
  }
  const resolver = async (name) => {
    if (!records.has(name)) {
      throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
    }
    return [[records.get(name)]];
  };
  const lines = [];
  for (const message of messages(file)) {
    const { results } = await dkimVerify(message, { resolver, minBitLength: 1024 });
    const status = results[0].status;
    lines.push(status.result === 'pass' ? 'pass' : `fail: ${status.result} ${status.comment || ''}`);
  }
  console.log(lines.join('\n'));
}

async function sign(kind, selector, domain, keyfile, file) {
  const privateKey = fs.readFileSync(keyfile);
  const made = [];
  let place = 0;
  for (const message of messages(file)) {
    const canonicalization = FORMS[place++ % FORMS.length];
    const { signatures, errors } = await dkimSign(message, {
      signTime: new Date(1700000000000),
      headerList: SIGNED,
      signatureData: [{ signingDomain: domain, selector, privateKey, algorithm: `${kind}-sha256`, canonicalization }],
    });
    if (errors && errors.length) {
      throw errors[0].err || new Error(JSON.stringify(errors));
    }
    const whole = Buffer.concat([Buffer.from(signatures), message]);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(whole.length);
    made.push(length, whole);
  }
  fs.writeFileSync(`${file}.made`, Buffer.concat(made));
}

const verbs = { verify, sign };
const [verb, ...rest] = process.argv.slice(2);
if (!verbs[verb]) {
  console.error('usage: see the head of this file');
  process.exit(2);
}
verbs[verb](...rest).catch((error) => {
  console.error(error);
  process.exit(1);
});
