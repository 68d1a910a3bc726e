import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from '../../fixtures/app.ts';
import { ScriptedModels, settled } from '../../fixtures/scripted-service.ts';

/** Streams of requests whose model has to be loaded. */

const test = suite('streams that wait for their model');

const messages = [{ role: 'user', content: 'Hi' }];
const fault = '"message":"It is broken."';
const openAi = `{${fault},"type":"server_error","param":null,"code":"worker_unhealthy"}`;
const anthropic = `{"type":"overloaded_error",${fault}}`;

const STREAMS: readonly (readonly [string, object, (id: string | null) => string])[] = [
  [
    '/v1/responses',
    { input: 'Hi' },
    () =>
      `{"type":"error","code":"worker_unhealthy",${fault},"param":null,"error":${openAi},"sequence_number":0}`,
  ],
  [
    '/v1/messages',
    { messages, max_tokens: 2 },
    (id) => `{"type":"error","error":${anthropic},"request_id":"${id}"}`,
  ],
];

for (const [path, body, lastOf] of STREAMS) {
  test(`${path} sends comments while its model loads, then any failure as an event`, async () => {
    const models = new ScriptedModels({ a: 60, b: 60 });
    const { post } = testApp({ models: models.registry, clock: models.clock });
    const asked = post(path, { model: 'b', ...body, stream: true });
    await settled();
    await models.pass(1500);
    const response = await asked;
    assert.is(response.status, 200);
    const text = response.text();
    models.of('b').model.fail('It is broken.');
    const events = (await text).split('\n\n').slice(0, -1);
    assert.is(events[0], ': loading');
    assert.is(events.at(-1), `event: error\ndata: ${lastOf(response.headers.get('request-id'))}`);
  });
}

test('tokens of messages are counted without loading the model', async () => {
  const models = new ScriptedModels({ a: 60, b: 60 });
  const { post } = testApp({ models: models.registry, clock: models.clock });
  const counted = await post('/v1/messages/count_tokens', { model: 'b', messages });
  assert.equal(await counted.json(), { input_tokens: 9 });
  assert.is(models.states, 'a unloaded, b unloaded');
});

test.run();
