/** Answers are the same byte for byte whether runners draft or not, on every route, and also when runners die. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { closeTinyModel, loadTinyModel, servedTiny, TINY_ID } from '../fixtures/served-tiny.ts';
import { type VariedRequest, variedRequests } from '../fixtures/varied-requests.ts';
import { PATIENCE_MS, until } from '../fixtures/within.ts';

const NUM_TOKENS = 96;
const ON = ['--speculation', 'on'];
const OFF = ['--speculation', 'off'];

/** Requests that may draw one token or three. With one, the same text always follows the same tokens; with three, sometimes. */
function repeating(request: VariedRequest): readonly VariedRequest[] {
  const { logit_bias: _bias, banned_token_ids: _banned, stop_token_ids: _stop, ...body } = request.body;
  return [[97], [97, 98, 99]].map((ids) => ({
    ...request,
    name: `${request.name}, of ${ids.length} tokens`,
    body: { ...body, allowed_token_ids: ids },
  }));
}

/** Gives a native job an id that no other job has at the same time. */
function withJobId(request: VariedRequest, index: number): VariedRequest {
  if (request.path !== '/execute') return request;
  return { ...request, body: { ...request.body, job_id: `job-${index}` } };
}

const requests = variedRequests(TINY_ID, NUM_TOKENS)
  .flatMap((request) => [request, ...repeating(request)])
  .map(withJobId);

async function digestsOf(flags: readonly string[]): Promise<readonly string[]> {
  const digests: string[] = [];
  await servedTiny({ flags }, async ({ ask }) => {
    for (const request of requests) digests.push((await ask(request)).digest);
  });
  return digests;
}

const test = suite('speculation');

test.before(loadTinyModel);
test.after(closeTinyModel);

let expected: readonly string[] = [];

test('with drafts every route gives the bytes that it gives without, one request after another', async () => {
  expected = await digestsOf(OFF);
  await servedTiny({ flags: ON }, async ({ ask, supervisor }) => {
    for (const [i, request] of requests.entries())
      assert.is((await ask(request)).digest, expected[i], request.name);
    const hasTold = () => (supervisor.status().stats?.numAcceptedDraftTokens ?? 0) > NUM_TOKENS;
    await until(PATIENCE_MS, 'accepted drafts in what the runner tells', hasTold);
    const { numDraftTokens, numAcceptedDraftTokens } = supervisor.status().counters;
    assert.ok(numDraftTokens > numAcceptedDraftTokens);
  });
});

test('with drafts every route gives the same bytes among others', async () => {
  await servedTiny({ flags: ON }, async ({ ask }) => {
    const digests = await Promise.all(requests.map(async (request) => (await ask(request)).digest));
    for (const [i, request] of requests.entries()) assert.is(digests[i], expected[i], request.name);
  });
});

test('a crash between steps with drafts does not change the bytes', async () => {
  for (const step of [2, 5, 9, 14]) {
    await servedTiny({ deaths: [`kill@step:${step}`], flags: ON }, async ({ ask, supervisor }) => {
      const index = 1; // greedy, of one token
      assert.is((await ask(requests[index] as VariedRequest)).digest, expected[index], `step ${step}`);
      assert.is(supervisor.status().restarts, 1);
    });
  }
});

test.run();
