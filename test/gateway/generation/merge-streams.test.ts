import { setImmediate as nextTurn } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { mergeStreams } from '../../../gateway/generation/merge-streams.ts';
import {
  type GenerateRequest,
  GenerationError,
  type GenerationHandle,
  type Runner,
  type RunnerStatus,
  type TokenSink,
} from '../../../gateway/runner/runner.ts';
import { TokenStream } from '../../../gateway/runner/supervision/token-stream.ts';
import { byteTokenizer } from '../../fixtures/byte-model.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { requestOf } from '../../fixtures/supervised.ts';

const test = suite('answers side by side');

const options = { tokenizer: byteTokenizer, stop: [], minTokens: 0 };

/** A runner whose steps the test makes. A step is one frame with something for some of the requests. */
class SteppedRunner implements Runner {
  readonly streams: TokenStream[] = [];
  readonly flows: string[] = [];
  numCancelled = 0;
  maxRequests = Number.POSITIVE_INFINITY;

  assertAcceptsRequests(): void {}
  assertCapacity(): void {}

  generate(_request: GenerateRequest, sink: TokenSink): GenerationHandle {
    if (this.streams.length >= this.maxRequests) {
      throw new GenerationError('QUEUE_FULL', 'No more may be open.', { retriable: true });
    }
    const index = this.streams.length;
    const stream = new TokenStream(sink, (flow) => this.flows.push(`${flow} ${index}`));
    this.streams.push(stream);
    return {
      cancel: () => {
        this.numCancelled++;
        stream.close();
      },
      pause: () => stream.pause(),
      resume: () => stream.resume(),
    };
  }

  /** Delivers one frame: text for each of some requests. */
  step(texts: readonly (readonly [index: number, text: string])[], finish?: 'max_tokens'): void {
    for (const [index, text] of texts) {
      this.streams[index]?.push({
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

const requests = (count: number) => Array.from({ length: count }, () => requestOf([1], 100));

function merged(count: number, onPart: (text: string) => void = () => {}) {
  const runner = new SteppedRunner();
  const heard: string[] = [];
  const text = mergeStreams(runner, requests(count), options, {
    onPart: ({ pieces, end }, index) => {
      const said = `${index}:${pieces.map((piece) => piece.text).join('')}${end === undefined ? '' : '.'}`;
      heard.push(said);
      onPart(said);
    },
    onError: (error) => heard.push((error as Error).message),
  });
  /** What was heard since the last call, after this turn of the loop. */
  const news = async () => {
    await nextTurn();
    return heard.splice(0);
  };
  return { runner, text, news };
}

test('the tokens of one step come together, in the order of the requests', async () => {
  const { runner, news } = merged(3);
  runner.step([
    [2, 'c'],
    [0, 'a'],
    [1, 'b'],
  ]);
  assert.equal(await news(), ['0:a', '1:b', '2:c']);
  runner.step([[1, 'd']]);
  assert.equal(await news(), ['1:d'], 'one does not wait for the others');
  runner.step(
    [
      [0, 'e'],
      [1, 'f'],
      [2, 'g'],
    ],
    'max_tokens',
  );
  assert.equal(await news(), ['0:e.', '1:f.', '2:g.']);
  assert.is(runner.numCancelled, 0);
});

test('a single answer is delivered before its push returns', () => {
  const heard: string[] = [];
  const { runner } = merged(1, (said) => heard.push(said));
  runner.step([[0, 'a']]);
  assert.equal(heard, ['0:a']);
});

test('an answer that is complete does not hold up the others', async () => {
  const { runner, news } = merged(2);
  runner.step([[0, 'a']], 'max_tokens');
  assert.equal(await news(), ['0:a.']);
  runner.step([[1, 'b']], 'max_tokens');
  assert.equal(await news(), ['1:b.']);
});

test('all are taken or none', () => {
  const runner = new SteppedRunner();
  runner.maxRequests = 2;
  const sink = { onPart: () => {}, onError: () => {} };
  assert.throws(
    () => mergeStreams(runner, requests(3), options, sink),
    (error: GenerationError) => error.code === 'QUEUE_FULL',
  );
  assert.is(runner.numCancelled, 2);
});

test('the failure of one ends all with its error, after the earlier output', async () => {
  const { runner, news } = merged(3);
  runner.step([[0, 'a']]);
  runner.streams[1]?.fail(new GenerationError('OUT_OF_MEMORY', 'It is too long.', { retriable: false }));
  runner.streams[2]?.fail(
    new GenerationError('OUT_OF_MEMORY', 'It is too long as well.', { retriable: false }),
  );
  runner.step([[0, 'b']]);
  assert.equal(await news(), ['0:a', 'It is too long.']);
  assert.is(runner.numCancelled, 3);
});

test('cancelling cancels all, and no output follows', async () => {
  const { runner, text, news } = merged(64);
  runner.step([[0, 'a']]);
  text.cancel();
  assert.equal(await news(), []);
  assert.is(runner.numCancelled, 64);
});

test('a reader that does not read is not sent more', () => {
  const { runner, text } = merged(2);
  text.pause();
  runner.step([[0, 'x'.repeat(300)]]);
  assert.equal(runner.flows, ['pause 0']);
  text.resume();
  assert.equal(runner.flows, ['pause 0', 'resume 0']);
});

test('a reader that pauses within a step gets the rest in order on resuming', async () => {
  const { runner, text, news } = merged(3, (said) => {
    if (said === '0:a') text.pause();
  });
  runner.step([
    [1, 'b'],
    [0, 'a'],
    [2, 'c'],
  ]);
  assert.equal(await news(), ['0:a']);
  runner.step([[1, 'd']]);
  assert.equal(await news(), [], 'what comes meanwhile waits as tokens');
  text.resume();
  assert.equal(await news(), ['1:b', '2:c', '1:d']);
});

test.run();
