'use strict';
const { readFileSync } = require('node:fs');
const { createRequire, wrap } = require('node:module');
const { dirname, join } = require('node:path');
const { Script } = require('node:vm');

/**
 * Runs the code of a bundled program with V8's cache of its compilation, which lies beside it. A cache of another version of V8,
 * or of other flags, is not taken: V8 then compiles the code, and the start takes longer. V8 does not look at the architecture,
 * and crashes with another one's, so the file is named for it.
 */

function cacheName(name) {
  return `${name}.${process.arch}.cache`;
}

/** Returns the code of a CommonJS module, compiled. It is in ASCII, which takes half the memory of other text. */
function compile(name) {
  const filename = join(__dirname, name);
  return new Script(wrap(readFileSync(filename, 'latin1')), { filename, cachedData: cacheOf(filename) });
}

function cacheOf(filename) {
  try {
    return readFileSync(cacheName(filename));
  } catch {
    return undefined;
  }
}

/** Runs the compiled code, and returns what the module exports. */
function run(script, name) {
  const filename = join(__dirname, name);
  const module = { exports: {} };
  script.runInThisContext()(module.exports, createRequire(filename), module, filename, dirname(filename));
  return module.exports;
}

module.exports = { cacheName, compile, run };
