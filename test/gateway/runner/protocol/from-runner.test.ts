import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ProtocolError } from '../../../../gateway/runner/protocol/frame.ts';
import { decodeFromRunner } from '../../../../gateway/runner/protocol/from-runner.ts';
import { runner } from '../../../../gateway/runner/protocol/proto/runner.js';
import { recordedCases } from '../../../fixtures/recorded-cases.ts';

const { v1 } = runner;

const test = suite('messages from the runner');

/** A value of a message, from what stands for it. */
function toValue(_: string, value: unknown): unknown {
  if (value === 'NaN') return Number.NaN;
  if (value === '@mixed') return v1.Phase.PHASE_MIXED;
  const [, list, repeated, count] = /^(?:(\[.*\])|(.))\*(\d+)$/.exec(String(value)) ?? [];
  if (repeated !== undefined) return repeated.repeat(Number(count));
  return list === undefined ? value : Array(Number(count)).fill(JSON.parse(list)[0]);
}

function readingOf(line: string): string {
  const message = JSON.parse(line, toValue) as runner.v1.FromRunner.$Properties;
  try {
    return JSON.stringify(decodeFromRunner(v1.FromRunner.encode(message).finish()));
  } catch (error) {
    assert.instance(error, ProtocolError);
    assert.is((error as ProtocolError).kind, 'field');
    return (error as ProtocolError).message;
  }
}

recordedCases(test, import.meta.url, readingOf);

test('prompt scores may be as many as 256 in a frame', () => {
  const logprobs = new Array(256).fill({ logprob: -1 });
  const frame = v1.FromRunner.encode({ promptLogprobs: { requestId: 7, firstIndex: 1, logprobs } }).finish();
  const message = decodeFromRunner(frame);
  assert.is(message.type === 'prompt_logprobs' && message.logprobs.length, 256);
});

test('a frame with two members is refused, whatever they are, before they are decoded', () => {
  const heartbeat = v1.FromRunner.encode({ heartbeat: { phase: v1.Phase.PHASE_IDLE } }).finish();
  const stats = v1.FromRunner.encode({ stats: { numRunning: 1 } }).finish();
  const ofLaterVersion = Uint8Array.of(0x9a, 0x06, 0x02, 0x08, 0x01);
  assert.is(decodeFromRunner(heartbeat).type, 'heartbeat');
  for (const [first, second] of [
    [heartbeat, stats],
    [heartbeat, heartbeat],
    [heartbeat, ofLaterVersion],
    [ofLaterVersion, heartbeat],
    [heartbeat, Uint8Array.of(0)],
  ] as const) {
    assert.throws(
      () => decodeFromRunner(Buffer.concat([first, second])),
      (error: unknown) =>
        error instanceof ProtocolError && error.message === 'A frame holds more than one message.',
    );
  }
});

test.run();
