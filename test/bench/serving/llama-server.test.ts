import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { Peer } from '../engines/peer.ts';
import { firstTokenAt, serverStart } from './first-token.ts';
import { LlamaServer, llamaServerSettings } from './llama-server.ts';
import type { Server } from './server.ts';
import { servingPeer } from './subjects.ts';

/** Tests with small programs that speak like llama-server. */

const test = suite('bench of llama-server');

const folder = temporaryFolder();
const SERVING = { model: '/a.gguf', threads: 2, slots: 3, contextEach: 100 };
const HELP = '-fa,   --flash-attn [on|off|auto]\n--no-ui, --no-webui\n-cram, --cache-ram N';

/** A llama-server that runs this script and prints this help. */
function llamaServer(script: string): Peer {
  const program = `#!/usr/bin/env node
if (process.argv[2] === '--help') { console.log(${JSON.stringify(HELP)}); process.exit(0); }
const valueOf = (flag) => process.argv[process.argv.indexOf(flag) + 1];
const http = require('node:http');
${script}
`;
  folder.write('llama-server', program, 0o755);
  return new Peer(folder.path);
}

const ANSWERS = `
http.createServer((request, response) => {
  if (request.url === '/metrics')
    return response.end('llamacpp:n_decode_total 4\\nllamacpp:n_busy_slots_per_decode 2.5\\n');
  response.write('data: {"choices":[{"text":"' + process.argv.slice(2).join(' ') + '","finish_reason":null}]}\\n\\n');
  response.end('data: {"choices":[],"usage":{"completion_tokens":1}}\\n\\n');
}).listen(valueOf('--port'), '127.0.0.1');
`;

test('it is polled until it listens, and ends on request', async () => {
  const peer = llamaServer(`setTimeout(() => {${ANSWERS}}, 200);`);
  const server: Server = await LlamaServer.start(peer, SERVING, '-fa 1');
  try {
    assert.ok((await firstTokenAt(server)) - server.startedMs > 200);
    assert.equal(await server.steps(), { steps: 4, sequences: 10 });
    assert.ok((await server.memory()).residentBytes > 0);
  } finally {
    await server.stop();
  }
  assert.match(server.failure ?? '', 'llama-server ended with SIGTERM');
});

test('its flags are those that it knows', async () => {
  const peer = llamaServer(
    ANSWERS.replace('response.write(', 'console.error(process.argv.join(" ")); response.write('),
  );
  assert.equal(await llamaServerSettings(peer), ['-fa 0', '-fa 1']);
  const server = await LlamaServer.start(peer, SERVING, '-fa 1');
  try {
    const seen = await (await fetch(await listening(server), { method: 'POST' })).text();
    assert.match(seen, / -np 3 -c 300 -t 2 -tb 2 /);
    assert.match(seen, / --metrics --no-webui --cache-ram 0 -fa 1"/);
  } finally {
    await server.stop();
  }
});

async function listening(server: LlamaServer): Promise<string> {
  await firstTokenAt(server);
  return `${server.url}/v1/completions`;
}

test('a server that dies midway is reported by its own last message', async () => {
  const dying = ANSWERS.replace(
    "response.end('data: ",
    "console.error('GGML_ASSERT(S > 0) failed\\n#0 wait4 ()'); process.exit(3); response.end('data: ",
  );
  const subject = await servingPeer(llamaServer(dying), SERVING, serverStart);
  try {
    await subject.measure('-fa 1', 1);
    assert.unreachable();
  } catch (error) {
    assert.match((error as Error).message, /^llama-server ended with 3: .*GGML_ASSERT\(S > 0\) failed$/);
  }
});

test.run();
