import { setImmediate as nextTurn } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type IndexedPart, readAnswers } from '../../../gateway/generation/merge-streams.ts';
import {
  type GenerateRequest,
  GenerationError,
  type Runner,
  type RunnerStatus,
  type TokenBatch,
} from '../../../gateway/runner/runner.ts';
import { TokenStream } from '../../../gateway/runner/supervision/token-stream.ts';
import { byteTokenizer } from '../../fixtures/byte-model.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { requestOf } from '../../fixtures/supervised.ts';
import { within } from '../../fixtures/within.ts';

const test = suite('answers side by side');

const PATIENCE_MS = 5000;
const never = new AbortController().signal;
const options = { tokenizer: byteTokenizer, stop: [], minTokens: 0 };
const cancelled = new GenerationError('CANCELLED', 'The request was cancelled.', { retriable: false });

/** A runner whose steps the test makes: one frame with something for some of the requests. */
class SteppedRunner implements Runner {
  readonly streams: TokenStream[] = [];
  readonly flows: string[] = [];
  numCancelled = 0;
  maxRequests = Number.POSITIVE_INFINITY;

  assertAcceptsRequests(): void {}
  assertCapacity(): void {}

  generate(_request: GenerateRequest, signal: AbortSignal): AsyncIterable<TokenBatch> {
    if (this.streams.length >= this.maxRequests) {
      throw new GenerationError('QUEUE_FULL', 'No more may be open.', { retriable: true });
    }
    const index = this.streams.length;
    const stream = new TokenStream((flow) => this.flows.push(`${flow} ${index}`));
    this.streams.push(stream);
    signal.addEventListener('abort', () => {
      this.numCancelled++;
      stream.abort(cancelled);
    });
    // The answer to every second request passes through more hands, and so arrives a little later.
    return index % 2 === 0 ? read(stream) : passedOn(passedOn(read(stream)));
  }

  /** What one frame brings: text by request. */
  step(texts: Record<number, string>, finish?: 'max_tokens'): void {
    for (const [index, text] of Object.entries(texts)) {
      this.streams[Number(index)]?.push({
        requestId: 1,
        firstIndex: 0,
        tokenIds: [...Buffer.from(text)],
        ...(finish === undefined ? {} : { finish }),
      });
    }
  }

  status(): RunnerStatus {
    return new ScriptedRunner().current;
  }
}

async function* read(stream: TokenStream): AsyncGenerator<TokenBatch> {
  for (;;) {
    const batch = await stream.next();
    yield batch;
    if (batch.finish !== undefined) return;
  }
}

async function* passedOn(batches: AsyncIterable<TokenBatch>): AsyncGenerator<TokenBatch> {
  yield* batches;
}

const requests = (count: number) => Array.from({ length: count }, () => requestOf([1], 100));

function textsOf(parts: readonly IndexedPart[]) {
  return parts.map(({ index, part }) => `${index}:${part.pieces.map(({ text }) => text).join('')}`);
}

async function next(answers: AsyncGenerator<readonly IndexedPart[], void>): Promise<string[] | 'done'> {
  const result = await within(PATIENCE_MS, 'The next parts', answers.next());
  return result.done === true ? 'done' : textsOf(result.value);
}

test('what one step brought comes at once, in the order of the requests', async () => {
  const runner = new SteppedRunner();
  const answers = readAnswers(runner, requests(3), options, never);
  const first = next(answers);
  runner.step({ 2: 'c', 0: 'a', 1: 'b' });
  assert.equal(await first, ['0:a', '1:b', '2:c']);
  const second = next(answers);
  runner.step({ 1: 'd' });
  assert.equal(await second, ['1:d'], 'one does not wait for the others');
  runner.step({ 0: 'e', 1: 'f', 2: 'g' }, 'max_tokens');
  assert.equal(await next(answers), ['0:e', '1:f', '2:g']);
  assert.is(await next(answers), 'done');
  assert.is(runner.numCancelled, 0);
});

test('an answer that is complete does not hold up the others', async () => {
  const runner = new SteppedRunner();
  const answers = readAnswers(runner, requests(2), options, never);
  const first = next(answers);
  runner.step({ 0: 'a' }, 'max_tokens');
  assert.equal(await first, ['0:a']);
  const second = next(answers);
  runner.step({ 1: 'b' }, 'max_tokens');
  assert.equal(await second, ['1:b']);
  assert.is(await next(answers), 'done');
});

test('all are taken or none', async () => {
  const runner = new SteppedRunner();
  runner.maxRequests = 2;
  const error = await errorOf(() => readAnswers(runner, requests(3), options, never));
  assert.is((error as GenerationError).code, 'QUEUE_FULL');
  assert.is(runner.numCancelled, 2);
});

test('the failure of one ends all with its error', async () => {
  const runner = new SteppedRunner();
  const answers = readAnswers(runner, requests(3), options, never);
  const first = next(answers);
  runner.step({ 0: 'a' });
  runner.streams[1]?.fail(new GenerationError('OUT_OF_MEMORY', 'It is too long.', { retriable: false }));
  const error = await errorOf(() => first);
  assert.is((error as GenerationError).code, 'OUT_OF_MEMORY');
  assert.is(runner.numCancelled, 3);
});

test('aborting cancels all, and more than ten of them are no leak', async () => {
  const warnings: string[] = [];
  const onWarning = (warning: Error) => warnings.push(warning.message);
  process.on('warning', onWarning);
  const runner = new SteppedRunner();
  const controller = new AbortController();
  const answers = readAnswers(runner, requests(64), options, controller.signal);
  const first = next(answers);
  controller.abort();
  assert.is((await errorOf(() => first)).message, cancelled.message);
  assert.is(runner.numCancelled, 64);
  // Node tells of a leak in a later turn.
  await nextTurn();
  process.off('warning', onWarning);
  assert.equal(warnings, []);
});

test('who does not read is not asked for more', async () => {
  const runner = new SteppedRunner();
  const answers = readAnswers(runner, requests(2), options, never);
  const first = next(answers);
  runner.step({ 0: 'a', 1: 'b' });
  await first;
  runner.step({ 0: 'x'.repeat(300) });
  assert.equal(runner.flows, ['pause 0']);
});

test.run();
