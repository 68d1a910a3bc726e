import { basename } from 'node:path';
import { Gateway } from '../../fixtures/gateway.ts';
import { killAll, runAll } from '../../fixtures/killed-streams.ts';
import { variedRequests } from '../../fixtures/varied-requests.ts';

/**
 *     node gateway-check.js MODEL TOKENS KILLS
 *
 * Serves the model with cpu-runner, then with cuda-runner, which is killed this many times. Fails if an answer differs in a
 * byte. Prints what a kill costs as one line of JSON.
 */

const [model = '', numTokens = '', numKills = ''] = process.argv.slice(2);
const program = [process.execPath, 'gateway/runnel.js'];
const requests = variedRequests(basename(model, '.gguf'), Number(numTokens));

async function start(backend: 'cpu' | 'cuda'): Promise<Gateway> {
  const args = ['--port', '0', '--backend', backend, '--journal-dir', 'off'];
  return (await Gateway.startOn(model, args, { program })).ready();
}

const onCpu = await start('cpu');
let numBytes = 0;
const expected = await runAll(onCpu, requests, -1, (count) => {
  numBytes += count;
});
await onCpu.stop();

const onDevice = await start('cuda');
try {
  const { interrupted, pausesMs } = await killAll(onDevice, requests, expected, numBytes, Number(numKills));
  console.log(
    JSON.stringify({
      streams: requests.length,
      tokens_each: Number(numTokens),
      kills: interrupted.length,
      open_at_kills: interrupted,
      longest_pause_ms_of_rounds: pausesMs,
      equal_to_cpu: true,
    }),
  );
} finally {
  await onDevice.stop();
}
