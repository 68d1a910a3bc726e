/**
 * The runner dies after every possible number of tokens of an answer, and the answer is the same byte for byte. The
 * faulty runner kills itself before the step after the token, so that each place is met exactly. The shipped runner
 * continues.
 */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { inParallel } from '../fixtures/in-parallel.ts';
import {
  closeTinyModel,
  deathPosition,
  loadTinyModel,
  servedTiny,
  TINY_ID,
} from '../fixtures/served-tiny.ts';
import { type VariedRequest, variedRequests } from '../fixtures/varied-requests.ts';

const NUM_TOKENS = 128;
/** 1 tests every cut point; `make check` runs that. */
const STRIDE = Number(process.env.RUNNEL_TEST_CUT_STRIDE ?? 16);

const cutPoints = Array.from({ length: NUM_TOKENS - 1 }, (_, index) => index + 1).filter(
  (tokens) => (tokens - 1) % STRIDE === 0,
);

/** One token per step, so that each place is met. */
const FLAGS = ['--speculation', 'off'];

interface Cut {
  readonly request: VariedRequest;
  readonly expected: string;
  readonly tokens: number;
  /** undefined for a request with several choices, which do not begin in the same step. */
  readonly numPromptTokens: number | undefined;
}

async function runCut({ request, expected, tokens, numPromptTokens }: Cut): Promise<void> {
  const where = `${request.name}, cut after ${tokens} tokens`;
  await servedTiny({ deaths: [`kill@step:${tokens}`], flags: FLAGS }, async (served) => {
    const { digest } = await served.ask(request);
    assert.is(served.supervisor.status().restarts, 1, where);
    const position = deathPosition(served);
    if (numPromptTokens !== undefined) assert.is(position, numPromptTokens + tokens - 1, where);
    assert.is(digest, expected, where);
  });
}

/** A runner that dies before its first step reports the position of the prompt's last token. */
async function promptTokensOf(request: VariedRequest): Promise<number> {
  let numPromptTokens = 0;
  await servedTiny({ deaths: ['kill@step:0'] }, async (served) => {
    await served.ask(request);
    numPromptTokens = deathPosition(served) + 1;
  });
  return numPromptTokens;
}

function hasOneChoice({ body }: VariedRequest): boolean {
  return body.n === undefined && !Array.isArray(body.prompt);
}

/** Adds a stop text that ends the answer after all cut points and spans several tokens. */
async function withStopText(request: VariedRequest): Promise<VariedRequest> {
  // Only letters are allowed, each a token of its own, so that the text has as many characters as tokens.
  const letters = Array.from({ length: 26 }, (_, index) => idOfByte('a'.charCodeAt(0) + index));
  const numTokens = NUM_TOKENS + 20;
  const body = { ...request.body, max_tokens: numTokens, min_tokens: 0, allowed_token_ids: letters };
  let text = '';
  await servedTiny({}, async ({ ask }) => {
    ({ text } = await ask({ ...request, body }));
  });
  assert.is(text.length, numTokens);
  return {
    ...request,
    name: 'a stop text',
    body: { ...body, stop: [text.slice(NUM_TOKENS, NUM_TOKENS + 6)] },
  };
}

/** In the tiny model's vocabulary three control tokens come first, then the bytes by value. */
function idOfByte(byte: number): number {
  return 3 + byte;
}

const test = suite('cut points');
test.before(loadTinyModel);
test.after(closeTinyModel);

const WHICH = STRIDE === 1 ? 'token' : `${STRIDE}th token`;

test(`a crash after each ${WHICH} changes no byte of ten answers`, async () => {
  const requests = [...variedRequests(TINY_ID, NUM_TOKENS)];
  const [greedy, drawn] = requests as [VariedRequest, VariedRequest];
  // The plainest request is replaced by the one with a stop text.
  requests[0] = await withStopText({ ...drawn, body: { ...greedy.body, temperature: 1, seed: 29 } });
  const cuts: Cut[] = [];
  for (const request of requests) {
    let expected = '';
    await servedTiny({}, async ({ ask }) => {
      ({ digest: expected } = await ask(request));
    });
    const numPromptTokens = hasOneChoice(request) ? await promptTokensOf(request) : undefined;
    for (const tokens of cutPoints) cuts.push({ request, expected, tokens, numPromptTokens });
  }
  const numRun = await inParallel(cuts, runCut);
  assert.is(numRun, requests.length * cutPoints.length);
  console.log(`${numRun} cuts: ${requests.length} answers of ${NUM_TOKENS} tokens, 0 lost`);
});

test.run();
