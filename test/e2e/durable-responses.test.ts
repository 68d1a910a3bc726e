/**
 * The gateway is killed with SIGKILL under responses in the background that think with a budget, hold to a form and call tools, and
 * started again with the same journal: the client that comes back has what it would have had. durable-cut-points.test.ts meets
 * each place exactly, without processes to kill.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { withChatTemplate } from '../fixtures/gguf-template.ts';
import { follow, type Returning } from '../fixtures/returning-client.ts';
import type { SseEvent } from '../fixtures/sse.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { thinkingTemplate } from '../fixtures/thinking-template.ts';
import { until } from '../fixtures/within.ts';

const PATIENCE_MS = 60_000;
const BUDGET = 16;

const word = { type: 'string', pattern: '^[A-Z][a-z]{2,9}$' };
const schema = { type: 'object', properties: { city: word, country: word }, required: ['city', 'country'] };
const text = { format: { type: 'json_schema', name: 'place', schema, strict: true } };
const tools = [{ type: 'function', name: 'visit', parameters: schema }];
const budget = { thinking_token_budget: BUDGET };

const kinds: Readonly<Record<string, object>> = {
  'a budget and a form': { text, ...budget },
  'a budget and a call': { tools, tool_choice: 'required', parallel_tool_calls: false, ...budget },
};

/** Where the gateway is killed: when the client of one of these has so many deltas of this. */
type Place = readonly [
  kind: string,
  of: 'reasoning_text' | 'output_text' | 'function_call_arguments',
  count: number,
];

const test = suite<{ gateways: Gateway[] }>('durable responses');

test.before.each((context) => {
  context.gateways = [];
});
test.after.each(async ({ gateways }) => {
  for (const gateway of gateways) await gateway.stop('SIGKILL');
});

function responseOf(gateway: () => Gateway, kind: object): Returning {
  let id = '';
  const asked = {
    ...{ model: 'thinking', input: 'Name a place.', max_output_tokens: 90, seed: 3, temperature: 0.7 },
    ...{ background: true, stream: true, ...kind },
  };
  return {
    begin: () => gateway().post('/v1/responses', asked),
    comeBack: (last) => {
      const after = last < 0 ? '' : `&starting_after=${last}`;
      return fetch(`${gateway().url}/v1/responses/${id}?stream=true${after}`);
    },
    numberOf: ({ event, data }) => {
      const { sequence_number, response } = JSON.parse(data);
      if (event === 'response.created') id = response.id;
      return sequence_number;
    },
    isLast: ({ event = '' }) => /^response\.(completed|incomplete|failed)$/.test(event),
  };
}

/** All that a client may rely on: neither the times nor the ids. */
function told(events: readonly SseEvent[]): string {
  const changing =
    /"(cached_tokens|created_at|completed_at)":\d+|"(resp|msg|rs|fc|call)_[0-9a-f-]{24,36}(_\d+)?"/g;
  return events.map(({ data }) => data.replace(changing, '')).join('\n');
}

const numDeltas = (events: readonly SseEvent[], of: Place[1]): number =>
  events.filter(({ event }) => event === `response.${of}.delta`).length;

test('gateway kills during or after thinking, or within a call, do not change responses', async ({
  gateways,
}) => {
  const folder = temporaryFolder();
  const model = folder.write(
    'thinking.gguf',
    withChatTemplate(readFileSync(DEFAULT_MODEL), thinkingTemplate),
  );
  const start = async (port: string): Promise<Gateway> => {
    const args = ['--port', port, '--journal-dir', join(folder.path, 'journal')];
    const started = await Gateway.startOn(model, args);
    gateways.splice(0, gateways.length, started);
    return started;
  };
  let gateway = await (await start('0')).ready();
  const { port } = new URL(gateway.url);
  const followed = async (): Promise<Record<string, { events: SseEvent[]; numReturns: number }>> => {
    const names = Object.keys(kinds);
    const heard: Record<string, SseEvent[]> = Object.fromEntries(names.map((name) => [name, []]));
    const all = names.map(async (name) => {
      const kind = kinds[name] ?? {};
      const { numReturns } = await follow(
        responseOf(() => gateway, kind),
        (event) => heard[name]?.push(event),
      );
      return [name, { events: heard[name] ?? [], numReturns }] as const;
    });
    following = heard;
    return Object.fromEntries(await Promise.all(all));
  };
  let following: Record<string, SseEvent[]> = {};

  const expected = await followed();
  const thought = numDeltas(expected['a budget and a form']?.events ?? [], 'reasoning_text');
  assert.ok(thought > BUDGET / 2, `${thought} deltas are thought`);
  for (const [name, { events, numReturns }] of Object.entries(expected)) {
    assert.is(numReturns, 0, name);
    assert.ok(numDeltas(events, name.endsWith('form') ? 'output_text' : 'function_call_arguments') > 3, name);
  }
  const places: readonly Place[] = [
    ['a budget and a form', 'reasoning_text', 3],
    ['a budget and a form', 'reasoning_text', thought],
    ['a budget and a call', 'function_call_arguments', 3],
  ];
  let numReturns = 0;
  for (const [kind, of, count] of places) {
    const all = followed();
    all.catch(() => {});
    await until(PATIENCE_MS, `${count} deltas of ${of}`, () => {
      const haveBegun = Object.values(following).every(({ length }) => length > 0);
      return haveBegun && numDeltas(following[kind] ?? [], of) >= count;
    });
    await gateway.stop('SIGKILL');
    gateway = await start(port);
    for (const [name, { events, numReturns: returns }] of Object.entries(await all)) {
      assert.is(told(events), told(expected[name]?.events ?? []), `${name}, killed in ${kind}`);
      numReturns += returns;
    }
  }
  assert.ok(numReturns >= places.length, 'clients came back');
});

test.run();
