/** Messages that no honest runner sends: the client names the violation, closes, and ignores everything after it. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { runner } from '../../../../gateway/runner/protocol/proto/runner.js';
import {
  connect,
  connectAndAsk,
  type FromRunner,
  hello,
  masks,
  ready,
  scores,
  sinkOf,
  step,
} from '../../../fixtures/connected-client.ts';
import { recordedCases } from '../../../fixtures/recorded-cases.ts';

const client = suite('lies to the client');

interface Change {
  readonly allowed?: number[];
  readonly banned?: number[];
}

interface Said extends FromRunner {
  /** How often it is said. */
  readonly times?: number;
  /** Steps without outputs, up to this number. */
  readonly stepsTo?: number;
}

function messagesOf({ times = 1, stepsTo, ...message }: Said): FromRunner[] {
  if (stepsTo !== undefined) return Array.from({ length: stepsTo }, (_, index) => step(index + 1));
  return Array.from({ length: times }, () => structuredClone(message));
}

/** What the client says of these messages. It must hear nothing behind them. */
async function fateOf(line: string): Promise<string> {
  const [{ allowed, banned = [], ...change }, ...said] = JSON.parse(line) as [Change, ...Said[]];
  const { say, sink, requestId, closed } = connectAndAsk({
    ...change,
    ...(allowed === undefined ? {} : masks(allowed, banned)),
  });
  say(...said.flatMap(messagesOf));
  const error = await closed();
  const numOutputs = sink.outputs.length;
  say(step(1, { requestId, tokenIds: [1] }));
  assert.is(sink.outputs.length, numOutputs, 'nothing is heard after the close');
  return error?.message ?? 'no error';
}

recordedCases(client, import.meta.url, fateOf);

client('a vector that nobody asked for, of another length or that is no number ends the runner', async () => {
  const embed = { tokenIds: [1, 2], pooling: 'last', cacheSalt: new Uint8Array() } as const;
  const vector = (more: object): FromRunner => ({ embedding: { requestId: 1, values: [1, 2, 3], ...more } });
  for (const [says, sentence] of [
    [[vector({ values: [1, 2] })], /got 2 values where 3 belong/],
    [[vector({ values: [1, Number.NaN, 3] })], /sent NaN as Embedding\.values\[1\]/],
    [[vector({ numCachedTokens: 2 })], /found 2 of 2 tokens in the cache/],
    [[vector({ requestId: 2 })], /request 2, which is not open/],
    [[vector({}), vector({})], /request 1, which is not open/],
    [[step(1, { requestId: 1, tokenIds: [1] })], /got a token where it asked for a vector/],
    [[scores(1, 1, 1)], /log-probabilities where it asked for a vector/],
  ] as const) {
    const { client: asking, say, closed } = connect();
    say(hello, ready);
    const sink = sinkOf();
    assert.is(asking.embed(embed, sink), 1);
    say(...says);
    assert.match((await closed())?.message ?? 'no error', sentence);
    assert.is(sink.outputs.length, 0);
  }
  const { say, requestId, closed } = connectAndAsk();
  say(vector({ requestId }));
  assert.match((await closed())?.message ?? 'no error', /got a vector where it asked for tokens/);
});

client('a requested vector is delivered once', () => {
  const { client: asking, say, heard } = connect();
  say(hello, ready);
  const sink = sinkOf();
  asking.embed({ tokenIds: [1, 2], pooling: 'mean', cacheSalt: Uint8Array.of(5) }, sink);
  say({ embedding: { requestId: 1, values: [1, -2, 0.5], numCachedTokens: 1 } });
  assert.equal([...(sink.embeddings[0]?.values ?? [])], [1, -2, 0.5]);
  assert.is(sink.embeddings[0]?.first.numCachedTokens, 1);
  assert.ok(heard.length > 0);
  const without = connect();
  without.say(hello, { ready: { ...ready.ready, embeddingSize: 0 } });
  assert.throws(
    () => without.client.embed({ tokenIds: [1], pooling: 'last', cacheSalt: new Uint8Array() }, sinkOf()),
    RangeError,
  );
});

client('the score of a pair is one value, of a runner that says that it has a head for it', async () => {
  const embed = {
    tokenIds: [1, 2, 3],
    pooling: 'rank',
    secondTypeFrom: 2,
    cacheSalt: new Uint8Array(),
  } as const;
  const ranking = { ready: { ...ready.ready, scoresPairs: true } };
  const sent: unknown[] = [];
  const {
    client: asking,
    say,
    closed,
  } = connect(({ embed: frame }) => {
    sent.push([frame?.pooling, frame?.secondTypeFrom]);
  });
  say(hello, ranking);
  const sink = sinkOf();
  asking.embed(embed, sink);
  say({ embedding: { requestId: 1, values: [-2] } });
  assert.equal([...(sink.embeddings[0]?.values ?? [])], [-2]);
  assert.equal(sent, [[runner.v1.Pooling.POOLING_RANK, 2]]);
  asking.embed(embed, sink);
  say({ embedding: { requestId: 2, values: [1, 2, 3] } });
  assert.match((await closed())?.message ?? 'no error', /got 3 values where 1 belong/);
  const without = connect();
  without.say(hello, ready);
  assert.throws(() => without.client.embed(embed, sinkOf()), RangeError);
});

client.run();
