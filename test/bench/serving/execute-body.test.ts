import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { executeBody } from '../../../gateway/api/native/execute.ts';
import { BODIES, figuresOfBodies, readingBodies, requestOf } from './execute-body.ts';

const test = suite('bodies of /execute');

test('the bodies are one with every compatible field and one with the longest prompt', () => {
  const every = requestOf(BODIES.every);
  const unset = Object.keys(executeBody.shape).filter(
    (name) => every[name as keyof typeof every] === undefined,
  );
  assert.equal(unset, ['prompt_ids'], 'a request has a prompt or its ids');
  assert.is(every.seed, 18446744073709551615n);
  assert.is(requestOf(BODIES.long).prompt?.length, 32_768);
});

test('times are in microseconds, as 50th, 95th and 99th percentiles', () => {
  const ascending = Array.from({ length: 100 }, (_, i) => (i + 1) / 1000);
  const figures = figuresOfBodies(ascending, ascending.toReversed());
  assert.equal([figures.bodyP50, figures.bodyP95, figures.bodyP99], [50, 95, 99]);
  assert.equal([figures.longBodyP50, figures.longBodyP95, figures.longBodyP99], [50, 95, 99]);
});

test('the measurement gives all figures', async () => {
  const figures = await readingBodies().measure('', 1);
  for (const id of ['bodyP50', 'bodyP99', 'longBodyP50', 'longBodyP99'] as const)
    assert.ok((figures[id] ?? 0) > 0, id);
});

test.run();
