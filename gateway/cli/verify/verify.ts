import { messages } from '../../api/anthropic/request.ts';
import { parseJson } from '../../api/json.ts';
import { executeCall, parseExecuteRequest } from '../../api/native/execute.ts';
import { parseGenerate, parseChat as parseOllamaChat } from '../../api/ollama/requests.ts';
import { chat } from '../../api/openai/chat-request.ts';
import { completions } from '../../api/openai/completion-request.ts';
import { responses } from '../../api/responses/responses.ts';
import { prepare } from '../../calls/answer.ts';
import type { Call } from '../../calls/call.ts';
import { runnerFaults, runnerSettings } from '../../config/runner-settings.ts';
import { serveSettings } from '../../config/serve-settings.ts';
import { ApiError } from '../../errors/api-error.ts';
import { ExitCode, refuse, UsageError } from '../../errors/exit-code.ts';
import { UnavailableError } from '../../errors/thrown.ts';
import { canonicalCallOf, RECEIPT_VERSION, type Receipt, receiptSchema } from '../../generation/receipt.ts';
import { decodeAll } from '../../generation/text-decoder.ts';
import { memberOf } from '../../json/json-values.ts';
import { resolveModel } from '../../models/model-cache.ts';
import { ModelSlot } from '../../models/model-slot.ts';
import { GenerationError } from '../../runner/runner.ts';
import type { TokenLimits } from '../../server/route-group.ts';
import { command } from '../command.ts';
import { type OfflineModel, withOfflineModel } from '../offline-model.ts';
import { readTextFile } from '../text-input.ts';
import { type Evidence, leftOut, otherWeights, type Verdict, verdictOf } from './compare.ts';
import { objectsIn, receiptsIn, savedAnswer } from './saved-answer.ts';

/**
 * One answer is computed at a time. One that a stop string has ended counts until the runner has read so, which it has before it
 * gives a token of the next one.
 */
const MAX_OPEN = 2;

/** `runnel verify`: computes answers again, and compares them with their receipts. */
export const verify = command({
  forms: ['verify --model MODEL [options] RECEIPT', 'verify --model MODEL [options] RECEIPT REQUEST ANSWER'],
  about: [
    'Computes an answer again by a runner of its own, and compares the tokens with those of its receipt. RECEIPT is a file with a receipt, or an answer with receipts as a client got it, whole or streamed. If a receipt has hashes alone, REQUEST and ANSWER are the files with the body of the request and with the answer.',
    `Exit status: ${ExitCode.ok}: equal; ${ExitCode.differs}: something differs; ${ExitCode.unverifiable}: it cannot be verified here, because weights, numerics or settings are others, because only the hashes are known, or because REQUEST does not give the call of the receipt.`,
  ].join('\n'),
  settings: { ...runnerSettings, 'max-tokens-out': serveSettings['max-tokens-out'] },
  takesArguments: true,
  examples: [
    'runnel verify --model smollm2 answer.json',
    'runnel verify --model smollm2 receipt.json request.json answer.json',
  ],
  run: async ({ config, sourceOf, positionals }) => {
    refuse(runnerFaults(config, sourceOf));
    const [file, requestFile, answerFile] = positionals;
    if (file === undefined || (positionals.length !== 1 && positionals.length !== 3))
      throw new UsageError('verify takes a RECEIPT, or RECEIPT, REQUEST and ANSWER.');
    const found = readReceipts(file);
    const asked =
      requestFile === undefined || answerFile === undefined ? undefined : readAsked(requestFile, answerFile);
    const ordered = asked === undefined ? found : found.toSorted((a, b) => a.choice - b.choice);
    const receipts = ordered.map(({ receipt }) => receipt);
    const gap = asked && leftOut(asked.body);
    const slot = new ModelSlot(resolveModel(config.model));
    await slot.refresh();
    const weights = (await slot.current?.weightsHash()) ?? '';
    const verdicts = receipts.map((receipt) => otherWeights(receipt, weights, slot.path) ?? gap);
    // No runner is needed to say so of all.
    if (verdicts.every((verdict) => verdict !== undefined)) {
      slot.close();
      return tell(verdicts);
    }
    const told: Verdict[] = [];
    try {
      await withOfflineModel(slot, config, MAX_OPEN, async (offline) => {
        const limits = { maxTokensOut: config['max-tokens-out'] };
        const evidence = asked && (await evidenceOf(asked, receipts, offline, limits));
        for (const [index, receipt] of receipts.entries())
          told.push(verdicts[index] ?? (await verdictOf(receipt, offline, evidence?.[index])));
      });
    } catch (error) {
      if (error instanceof ApiError) throw new UsageError(`${requestFile}: ${error.message}`);
      if (error instanceof GenerationError) throw new UnavailableError(error.message);
      throw error;
    }
    return tell(told);
  },
});

/** Prints the verdicts. Returns the exit status of all. */
function tell(verdicts: readonly Verdict[]): number {
  for (const [index, { result, sentences }] of verdicts.entries()) {
    const which = verdicts.length > 1 ? `receipt ${index + 1} of ${verdicts.length}: ` : '';
    for (const sentence of sentences) console.log(`${which}${result}: ${sentence}`);
  }
  const results = verdicts.map(({ result }) => result);
  if (results.includes('differs')) return ExitCode.differs;
  return results.includes('unverifiable') ? ExitCode.unverifiable : ExitCode.ok;
}

function readReceipts(file: string): readonly { readonly receipt: Receipt; readonly choice: number }[] {
  const found = receiptsIn(objectsOf(file));
  if (found.length === 0) throw new UsageError(`There is no receipt in ${file}.`);
  return found.map(({ receipt: each, choice }) => {
    const version = memberOf(each, 'version');
    if (version !== RECEIPT_VERSION)
      throw new UsageError(
        `A receipt in ${file} is of version ${JSON.stringify(version)}; this program verifies version ${RECEIPT_VERSION}.`,
      );
    const parsed = receiptSchema.safeParse(each);
    if (parsed.success) return { receipt: parsed.data, choice };
    const [issue] = parsed.error.issues;
    throw new UsageError(`A receipt in ${file} cannot be read: ${issue?.path.join('.')}: ${issue?.message}.`);
  });
}

function objectsOf(file: string): readonly object[] {
  try {
    return objectsIn(readTextFile(file));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new UsageError(`${file} is neither JSON, nor a stream of events or lines of JSON.`);
  }
}

/** How the bodies of each route are read. */
const CALLS: Readonly<Record<string, (body: unknown) => Call>> = {
  '/execute': (body) => executeCall(parseExecuteRequest(body)),
  '/v1/chat/completions': (body) => chat.parse(body).call,
  '/v1/completions': (body) => completions.parse(body).call,
  '/v1/responses': (body) => responses.parse(body).call,
  '/v1/messages': (body) => messages.parse(body).call,
  '/api/chat': (body) => parseOllamaChat(body).call,
  '/api/generate': (body) => parseGenerate(body).call,
};

interface Asked {
  readonly body: unknown;
  readonly call: Call;
  readonly choices: readonly Evidence['said'][];
}

function readAsked(requestFile: string, answerFile: string): Asked {
  const answer = savedAnswer(objectsOf(answerFile));
  const callOf = CALLS[answer?.route ?? ''];
  if (answer === undefined || callOf === undefined)
    throw new UsageError(`${answerFile} is not the answer of a route that generates text.`);
  try {
    const body = parseJson(readTextFile(requestFile));
    return { body, call: callOf(body), choices: answer.choices };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new UsageError(`${requestFile} is not a body of ${answer.route}: ${error.message}`);
  }
}

/** What request and answer say of each receipt. Throws ApiError if the model cannot do what the call asks. */
async function evidenceOf(
  { call, choices }: Asked,
  receipts: readonly Receipt[],
  { model, info }: OfflineModel,
  limits: TokenLimits,
): Promise<readonly Evidence[]> {
  const { stop, report = {} } = call;
  const { tokenizer } = model;
  const usable = { model, info: { ...info, ...limits }, api: 'verify' };
  const seedOf = (): bigint => BigInt(receipts[0]?.seed ?? 0);
  const { requests, thinking, offer } = await prepare(call, usable, { cacheSalt: new Uint8Array() }, seedOf);
  if (requests.length !== receipts.length)
    throw new UsageError(
      `The request asks for ${requests.length} answers, and there are ${receipts.length} receipts.`,
    );
  const search = { tokenizer, stop, thinking, toolCalls: offer?.calls };
  return requests.map((request, index) => ({
    call: canonicalCallOf(request, search),
    options: { ...search, minTokens: request.minTokens },
    echoed: report.isEchoed ? decodeAll(tokenizer, request.promptIds) : '',
    said: choices[index] ?? { thought: '', text: '' },
  }));
}
