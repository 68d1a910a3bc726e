/** Whatever a body says, the client gets an answer, and an error says what is wrong with the body. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { encodeToRunner } from '../../../gateway/runner/protocol/to-runner.ts';
import { GenerationState } from '../../../gateway/runner/supervision/generation-state.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { oneModel, plainApp } from '../../fixtures/app.ts';
import { byteModel, EOS_ID } from '../../fixtures/byte-model.ts';
import { Random } from '../../fixtures/random.ts';
import { type RandomBody, ROUTE_PATHS, randomBody } from '../../fixtures/random-bodies.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { watchStream } from '../../fixtures/watch-stream.ts';
import { PATIENCE_MS, within } from '../../fixtures/within.ts';

const test = suite('random bodies');

const NUM_BODIES = Number(process.env.RUNNEL_TEST_BODIES ?? 4_000);
const SEED = Number(process.env.RUNNEL_TEST_SEED ?? Date.now() % 1_000_000);

const unhandled: unknown[] = [];
process.on('unhandledRejection', (reason) => unhandled.push(reason));

const runner = new ScriptedRunner();
runner.script = [[72, 105], [EOS_ID], ...new Array<number[]>(600).fill([97])];
const errorLines: string[] = [];
const app = plainApp({
  models: oneModel(() => byteModel, runner),
  log: createLog('error', undefined, { write: (line) => void errorLines.push(line) }),
  maxBodyBytesInFlight: 2 ** 22,
});

/** Sends the body, reads the answer to its end, and checks both. */
async function check({ path, headers, body }: RandomBody): Promise<number> {
  const answered = await app.request(path, { method: 'POST', headers, body });
  const response = watchStream(path, answered);
  const bytes = Buffer.from(await response.arrayBuffer());
  assert.ok(response.status < 500, `${response.status}: ${bytes}`);
  assert.equal(errorLines, []);
  if (response.status >= 400) checkRefusal(path, bytes.toString());
  else if (headers.accept === undefined) assert.not.match(bytes.toString(), /event: error|"error":(?!null)/);
  for (const request of runner.requests.splice(0)) {
    // Throws if the request cannot be expressed in a frame.
    encodeToRunner({ type: 'generate', requestId: 1, ...new GenerationState(request).toGenerate(false) });
    for (const id of request.promptIds) assert.ok(id < byteModel.tokenizer.vocabSize);
  }
  return response.status;
}

interface Refusal {
  readonly errors?: readonly { readonly field: string; readonly message: string }[];
  /** OpenAI's and Anthropic's routes use an object, Anthropic's without the field's name. Ollama's routes use a sentence. */
  readonly error?: { readonly message: string; readonly param?: string | null } | string;
}

/** The words of the schema library's own error messages. */
const LIBRARY_WORDS =
  /Invalid (input|option|key|element)|Too (big|small)|Unrecognized|expected \w+, received/;

/** Routes whose errors do not name a field. */
const SENTENCES = new Set(['/v1/messages', '/api/chat']);

/** Checks that the error names the field and says something about it. */
function checkRefusal(path: string, text: string): void {
  const refusal = JSON.parse(text) as Refusal;
  const { error, errors = [] } = refusal;
  const sentence = typeof error === 'string' ? error : error?.message;
  const { field, message } = SENTENCES.has(path)
    ? { field: 'a field', message: sentence }
    : typeof error === 'object'
      ? { field: error.param, message: sentence }
      : { field: errors[0]?.field, message: errors[0]?.message };
  assert.ok(typeof field === 'string' && field !== '', text);
  assert.ok(typeof message === 'string' && message.length > field.length, text);
  assert.not.match(message, LIBRARY_WORDS);
  assert.ok(text.length < 8192, `an answer of ${text.length} characters`);
}

test(`each of ${NUM_BODIES} random bodies is answered or refused by name`, async () => {
  const random = new Random(SEED);
  const statuses = new Map<number, number>();
  const taken = new Set<string>();
  for (let index = 0; index < NUM_BODIES; index++) {
    const request = randomBody(random);
    try {
      const status = await within(PATIENCE_MS, 'An answer', check(request));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status < 300) taken.add(request.path);
    } catch (error) {
      const shown = JSON.stringify(Buffer.from(request.body).toString('latin1')).slice(0, 500);
      throw new Error(
        `seed ${SEED}, body ${index} of ${request.path}: ${(error as Error).message}\n${shown}`,
      );
    }
  }
  assert.equal(unhandled, []);
  // A generator whose bodies are all refused, or all accepted, would test only one half.
  assert.is(taken.size, ROUTE_PATHS.length);
  const [numTaken = 0, numRefused = 0] = [statuses.get(200), statuses.get(400)];
  assert.ok(numTaken > NUM_BODIES / 10 && numRefused > NUM_BODIES / 10, JSON.stringify([...statuses]));
  console.log(`${NUM_BODIES} bodies (seed ${SEED}): ${JSON.stringify([...statuses])}`);
});

test.run();
