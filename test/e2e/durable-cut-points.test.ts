/**
 * The gateway ends after every number of tokens that a response in the background can have, and another one goes on with it, by itself
 * or, if the response was parked, once it is resumed: its client comes back for what is behind its last event, and has what it would
 * have had. What it thinks has a budget, the answer a form or
 * tools; each of these is met before, in and behind its own marks.
 */
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import * as assert from 'uvu/assert';
import type { Model } from '../../gateway/models/model.ts';
import { loadModel } from '../../gateway/models/model-slot.ts';
import type { GenerateRequest, GenerationHandle, Runner, TokenSink } from '../../gateway/runner/runner.ts';
import type { RunnerPool } from '../../gateway/runner/supervision/runner-pool.ts';
import { closingSuite } from '../fixtures/closing-suite.ts';
import { TINY_MODEL } from '../fixtures/default-model.ts';
import { type DurableApp, durableApp, journalFolder } from '../fixtures/durable.ts';
import { withChatTemplate } from '../fixtures/gguf-template.ts';
import { servedTiny } from '../fixtures/served-tiny.ts';
import { type SseEvent, SseParser } from '../fixtures/sse.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { thinkingTemplate } from '../fixtures/thinking-template.ts';

/** Every cut point is 1; `make check` runs that. */
const STRIDE = Number(process.env.RUNNEL_TEST_CUT_STRIDE ?? 16);
const BUDGET = 10;
/** Tokens of `</think>` in the tiny model's vocabulary, which has a letter each, and two more. */
const MARK = '</think>'.length + 2;

const word = { type: 'string', pattern: '^[a-z]{3,9}$' };
const schema = { type: 'object', properties: { a: word, b: word }, required: ['a', 'b'] };
const tools = [{ type: 'function', name: 'f', parameters: schema, strict: true }];
const form = { text: { format: { type: 'json_schema', name: 'words', schema, strict: true } } };
const budget = { thinking_token_budget: BUDGET };
const unthought = { reasoning: { effort: 'none' } };

const kinds: Readonly<Record<string, object>> = {
  'a budget': { ...budget, max_output_tokens: 40 },
  'a form': { ...form, ...unthought },
  'a budget and a form': { ...form, ...budget },
  'calls of tools': { tools, tool_choice: 'required', ...unthought, max_output_tokens: 150 },
  'a budget and a call': { tools, tool_choice: 'required', parallel_tool_calls: false, ...budget },
  'a budget, a form and tools': { ...form, ...budget, tools, parallel_tool_calls: false },
};
const base = {
  model: 'thinking',
  input: 'Hi',
  background: true,
  stream: true,
  seed: 5,
  max_output_tokens: 200,
};

/** Gives so many tokens of an answer, and then nothing: what a process has done when it ends. */
class CutRunner implements Runner {
  readonly #runner: Runner;
  readonly #numTokens: number;
  readonly #onCut: () => void;

  constructor(runner: Runner, numTokens: number, onCut: () => void) {
    this.#runner = runner;
    this.#numTokens = numTokens;
    this.#onCut = onCut;
  }

  generate(request: GenerateRequest, sink: TokenSink): GenerationHandle {
    let left = this.#numTokens;
    if (left === 0) queueMicrotask(this.#onCut);
    return this.#runner.generate(request, {
      onTokens: (batch) => {
        if (left === 0) return;
        const tokenIds = batch.tokenIds.slice(0, left);
        left -= tokenIds.length;
        const { finish: _finish, ...open } = batch;
        sink.onTokens({ ...open, tokenIds });
        if (left === 0) this.#onCut();
      },
      onError: (error) => sink.onError(error),
    });
  }

  assertCapacity(requests: readonly GenerateRequest[]): void {
    this.#runner.assertCapacity(requests);
  }

  assertAcceptsRequests(): void {
    this.#runner.assertAcceptsRequests();
  }

  status() {
    return this.#runner.status();
  }
}

interface Told {
  readonly sequence_number: number;
  readonly response?: { readonly id: string; readonly usage: { readonly output_tokens: number } | null };
}

const toldBy = ({ data }: SseEvent): Told => JSON.parse(data) as Told;

/** As far as it comes. */
async function eventsOf(response: Response): Promise<SseEvent[]> {
  assert.is(response.status, 200, response.ok ? '' : await response.clone().text());
  const parser = new SseParser();
  const events: SseEvent[] = [];
  try {
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>)
      events.push(...parser.push(bytes));
  } catch (error) {
    assert.instance(error, Error);
  }
  return events;
}

/** All that a client may rely on: neither the times nor the ids. */
function plain(events: readonly SseEvent[]): string {
  return events
    .map(({ data }) =>
      data
        .replaceAll(/"(created_at|completed_at|cached_tokens)":\d+/g, '')
        .replaceAll(/"(resp|msg|rs|fc|call)_[0-9a-f-]{24,36}/g, '"$1'),
    )
    .join('\n');
}

const test = closingSuite('durable cut points');

let model: Model;
test.before(async () => {
  const gguf = withChatTemplate(readFileSync(TINY_MODEL), thinkingTemplate);
  model = await loadModel(temporaryFolder().write('thinking.gguf', gguf));
});
test.after(() => {
  model.tokenizer.close();
});

for (const [name, kind] of Object.entries(kinds)) {
  test(`${name}: another process resumes it after each number of tokens, parked or not`, async () => {
    const body = { ...base, ...kind };
    const hasBudget = 'thinking_token_budget' in body;
    await servedTiny({}, async ({ supervisor }) => {
      const undisturbed = await appOver(journalFolder(), supervisor);
      const whole = await eventsOf(await undisturbed.post('/v1/responses', body));
      await undisturbed.jobs.stop();
      const last = whole.at(-1);
      const numTokens = (last && toldBy(last).response?.usage?.output_tokens) ?? 0;
      assert.ok(numTokens > (hasBudget ? BUDGET + MARK : 0), `${numTokens} tokens`);
      let numRun = 0;
      for (let cut = 0; cut < numTokens; cut++) {
        const isAtMark = hasBudget && cut >= BUDGET - 1 && cut <= BUDGET + MARK;
        if (cut % STRIDE !== 0 && !isAtMark) continue;
        for (const isParked of [false, true]) {
          const events = await cutAfter(cut, body, supervisor, isParked);
          const how = isParked ? 'parked' : 'cut';
          assert.is(plain(events), plain(whole), `${name}, ${how} after ${cut} tokens`);
        }
        numRun++;
      }
      console.log(`${numRun} cuts and ${numRun} parkings of ${name}, ${numTokens} tokens, 0 lost`);
    });
  });
}

function appOver(folder: string, runner: Runner): Promise<DurableApp> {
  return durableApp(folder, { model: () => model, runner });
}

/** The events that a client has of both processes. */
async function cutAfter(
  numTokens: number,
  body: object,
  runner: RunnerPool,
  isParked: boolean,
): Promise<SseEvent[]> {
  const folder = journalFolder();
  let onCut = (): void => {};
  const isCut = new Promise<void>((resolve) => {
    onCut = resolve;
  });
  const first = await appOver(folder, new CutRunner(runner, numTokens, () => onCut()));
  const response = await first.post('/v1/responses', body);
  const job = `/jobs/${response.headers.get('x-runnel-job-id')}`;
  const reading = eventsOf(response);
  await isCut;
  if (isParked) {
    assert.is((await first.post(`${job}/park`, {})).status, 200);
    assert.is(runner.status().openRequests, 0);
  }
  await first.jobs.stop();
  const events = await reading;
  const [begun] = events.map(toldBy);
  assert.ok(begun?.response, 'a client knows the id');
  const second = await appOver(folder, runner);
  if (isParked) {
    assert.equal([runner.status().openRequests, second.jobs.numParked], [0, 1]);
    assert.is((await second.post(`${job}/resume`, {})).status, 200);
  }
  const path = `/v1/responses/${begun.response.id}?stream=true&starting_after=${events.length - 1}`;
  events.push(...(await eventsOf(await second.get(path))));
  await second.jobs.stop();
  for (const { journal } of [first, second]) await journal.close();
  // There are 1,264 of them at full length: if the end of the process removed all, it could take a minute on a busy disk.
  await rm(folder, { recursive: true });
  return events;
}

test.run();
