import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { packMsgpack } from '../../../gateway/api/msgpack.ts';
import { testApp } from '../../fixtures/app.ts';

/** Bytes that are not valid text are refused, so that an answer is always to what the client sent. */

const test = suite('text of bodies');

const bytes = (text: string): number[] => [...Buffer.from(text)];

/** A body with these bytes as its prompt. */
function withPrompt(prompt: readonly number[]): Uint8Array {
  return Uint8Array.from([...bytes('{"job_id":"a","prompt":"'), ...prompt, ...bytes('"}')]);
}

async function refusal(response: Response): Promise<{ field: string; constraint: string; message: string }> {
  assert.is(response.status, 400);
  const { errors } = (await response.json()) as {
    errors: { field: string; constraint: string; message: string }[];
  };
  assert.is(errors.length, 1);
  return errors[0] as (typeof errors)[0];
}

test('bytes that are not UTF-8 are refused, in both encodings, and nothing is put in their place', async () => {
  const { runner, post } = testApp();
  const broken = [
    [0xff],
    [0xc3],
    [0xc0, 0xaf],
    [0xed, 0xa0, 0x80],
    [0xf4, 0x90, 0x80, 0x80],
    [...bytes('gr'), 0xfc, ...bytes('n')],
  ];
  for (const prompt of broken) {
    const name = JSON.stringify(prompt);
    const { field, constraint, message } = await refusal(await post('/execute', withPrompt(prompt)));
    assert.equal([field, constraint], ['body', 'json'], name);
    assert.match(message, 'not UTF-8');

    const packed = packMsgpack({ job_id: 'a', prompt: 'x'.repeat(prompt.length) });
    packed.set(prompt, packed.length - prompt.length);
    const type = { 'content-type': 'application/x-msgpack' };
    assert.match((await refusal(await post('/execute', packed, type))).message, 'not UTF-8', name);
  }
  const openAi = await post('/v1/completions', Uint8Array.from([0x22, 0xff, 0x22]));
  assert.is(openAi.status, 400);
  assert.is(((await openAi.json()) as { error: { code: string } }).error.code, 'invalid_json');
  assert.is(runner.requests.length, 0);
});

test.run();
