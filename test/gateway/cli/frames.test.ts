import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Long from 'long';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { frames as command } from '../../../gateway/cli/frames.ts';
import { encodeFrame } from '../../../gateway/runner/protocol/frame.ts';
import { runner } from '../../../gateway/runner/protocol/proto/runner.js';
import { runCommand } from '../../fixtures/run-command.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const { v1 } = runner;
const entry = (fields: runner.v1.RecordEntry.$Properties): Uint8Array =>
  encodeFrame(v1.RecordEntry.encode(fields).finish(), 2 ** 24);

const start = entry({ start: { version: 1, model: '/m.gguf', kvCacheBytes: Long.fromString('1073741824') } });
const step = entry({
  step: Long.fromNumber(12),
  event: {
    step: {
      step: Long.fromNumber(12),
      outputs: [{ requestId: 4294967295, firstIndex: 3, tokenIds: [11], finishReason: 2 }],
    },
  },
});

const folder = temporaryFolder();
const print = (name: string) => runCommand(command.run, join(folder.path, name));
const runnel = fileURLToPath(new URL('../../../gateway/runnel.js', import.meta.url));

const frames = suite('frames');

frames('a recording is printed one line a frame, with the step and the direction', async () => {
  const generate = entry({
    command: {
      generate: {
        requestId: 7,
        tokenIds: Array.from({ length: 2000 }, (_, i) => i),
        maxTokens: 5,
        cacheSalt: Uint8Array.of(1, 2, 255),
        sampling: {
          temperature: 0.8,
          seed: Long.MAX_UNSIGNED_VALUE,
          logitBias: [{ tokenId: 5, bias: -100 }],
        },
      },
    },
  });
  const failure = entry({ event: { failure: { exitCode: 70, message: 'a\nb\u001b[2J' } } });
  const end = entry({ step: Long.fromNumber(12), commandsEnd: {} });
  folder.write('good.frames', Buffer.concat([start, generate, failure, step, end]));
  assert.equal((await print('good.frames')).stdout.split('\n'), [
    '     0 - start version 1, model /m.gguf, kv_cache_bytes 1073741824',
    '     0 > generate request_id 7, token_ids [0 1 2 3 4 5 6 7 and 1992 more], max_tokens 5, ' +
      'sampling {temperature 0.8, seed 18446744073709551615, logit_bias [{token_id 5, bias -100}]}, cache_salt AQL/',
    '     0 < failure exit_code 70, message a\\u000ab\\u001b[2J',
    '    12 < step step 12, outputs [{request_id 4294967295, first_index 3, token_ids [11], ' +
      'finish_reason FINISH_REASON_MAX_TOKENS}]',
    '    12 > commands_end',
    '',
  ]);
});

frames('--json prints each frame whole, with the names of the protocol', async () => {
  folder.write('json.frames', Buffer.concat([start, step]));
  const { exitCode, stdout } = await runCommand(command.run, '--json', join(folder.path, 'json.frames'));
  assert.is(exitCode, 0);
  assert.equal(
    stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
    [
      {
        step: '0',
        direction: 'about',
        name: 'start',
        fields: { version: 1, model: '/m.gguf', kv_cache_bytes: '1073741824' },
      },
      {
        step: '12',
        direction: 'from_runner',
        name: 'step',
        fields: {
          step: '12',
          outputs: [
            {
              request_id: 4294967295,
              first_index: 3,
              token_ids: [11],
              finish_reason: 'FINISH_REASON_MAX_TOKENS',
            },
          ],
        },
      },
    ],
  );
});

frames('a recording that a crash cut off is printed up to there', async () => {
  folder.write('cut.frames', Buffer.concat([start, step.subarray(0, 9)]));
  const lines = (await print('cut.frames')).stdout.trimEnd().split('\n');
  assert.is(lines.length, 2);
  assert.match(
    lines[1] ?? '',
    /^ +- cut_off reason The stream ended inside a frame, after 8 of \d+ bytes\.$/,
  );
});

frames('a reader that has seen enough may leave', () => {
  const file = folder.write(
    'long.frames',
    Buffer.concat([start, ...new Array<Uint8Array>(20_000).fill(step)]),
  );
  const command = `set -o pipefail; ${process.execPath} ${runnel} frames ${file} | head -n 1`;
  assert.is(execFileSync('bash', ['-c', command], { encoding: 'utf8' }).split('\n').length, 2);
});

frames('a file that is not a recording is refused with a sentence', async () => {
  folder.write('empty', '');
  folder.write('text', 'A text, for example.');
  folder.write('headless', step);
  folder.write('hollow', Buffer.concat([start, encodeFrame(new Uint8Array(), 9)]));
  for (const [args, status] of [
    [['empty'], 64],
    [['text'], 64],
    [['headless'], 64],
    [['hollow'], 64],
    [['absent'], 66],
    [['headless', 'hollow'], 64],
    [[], 64],
  ] as const) {
    const { exitCode, stderr } = await runCommand(
      command.run,
      ...args.map((name) => join(folder.path, name)),
    );
    assert.is(exitCode, status, args.join(' '));
    assert.match(stderr, /^runnel: [^\n]+\n$/, `${args.join(' ')}: ${stderr}`);
  }
});

frames.run();
