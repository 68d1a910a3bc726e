import {
  type CanonicalCall,
  callHash,
  quantizedAs,
  type Receipt,
  tokensHash,
} from '../../generation/receipt.ts';
import type { AnswerOptions } from '../../generation/text-stream.ts';
import { memberOf } from '../../json/json-values.ts';
import { GenerationError } from '../../runner/runner.ts';
import type { OfflineModel } from '../offline-model.ts';
import { type Recomputed, recompute, textDiffersAt } from './recompute.ts';
import type { SaidChoice } from './saved-answer.ts';

/** Compares a receipt with what is computed here. */

/** equal: all that the receipt says. differs: something else was computed. unverifiable: nothing here can tell. */
export interface Verdict {
  readonly result: 'equal' | 'differs' | 'unverifiable';
  readonly sentences: readonly string[];
}

/** What is known of an answer besides its receipt. */
export interface Evidence {
  readonly call: CanonicalCall;
  readonly options: AnswerOptions;
  /** What precedes the text of its tokens. */
  readonly echoed: string;
  readonly said: SaidChoice;
}

/** For a request that does not say all that was called; undefined if it does. */
export function leftOut(body: unknown): Verdict | undefined {
  if (typeof memberOf(body, 'previous_response_id') !== 'string') return undefined;
  return unverifiable(
    'The request continues another response (previous_response_id), and what was said before is not in it: give a request with the whole conversation in input.',
  );
}

/** Undefined if these weights are those of the receipt. */
export function otherWeights({ weights }: Receipt, found: string, path: string): Verdict | undefined {
  if (weights === found) return undefined;
  return unverifiable(`The receipt is of the weights ${weights}; those of ${path} are ${found}.`);
}

/**
 * given: what request and answer say; undefined without them. A request that does not give the call of the receipt here proves nothing
 * against it: the receipt alone is then compared, if it is full. Throws GenerationError.
 */
export async function verdictOf(
  receipt: Receipt,
  offline: OfflineModel,
  given: Evidence | undefined,
): Promise<Verdict> {
  const other = given && otherCall(receipt, given);
  const evidence = other === undefined ? given : undefined;
  const call = receipt.full?.call ?? evidence?.call;
  const reason = whyNot(receipt, offline, call, other);
  if (reason !== undefined || call === undefined) return unverifiable(reason ?? '');
  const isCut = receipt.stop_reason === 'time_limit';
  let computed: Recomputed;
  try {
    computed = await recompute(offline, call, isCut ? receipt.num_tokens : undefined);
  } catch (error) {
    if (!(error instanceof GenerationError) || error.code !== 'INVALID_REQUEST') throw error;
    return unverifiable(`The runner refuses the call of the receipt: ${error.message}`);
  }
  const { tokenIds } = computed;
  const reasonHere = isCut ? receipt.stop_reason : computed.reason;
  const facts = {
    call: callHash(call),
    seed: call.seed,
    tokens: tokensHash(tokenIds),
    num_tokens: tokenIds.length,
    stop_reason: reasonHere,
  };
  const position = positionOf(receipt, { ...computed, reason: reasonHere }, evidence);
  const names = Object.keys(facts) as (keyof typeof facts)[];
  const sentences = [
    ...(position === undefined ? [] : [position]),
    ...names
      .filter((name) => receipt[name] !== facts[name])
      .map((name) => `${name} is ${receipt[name]} in the receipt, and ${facts[name]} here.`),
  ];
  if (sentences.length > 0) return { result: 'differs', sentences };
  const equal = `${tokenIds.length} tokens, computed again.`;
  if (other !== undefined) return { result: 'unverifiable', sentences: [equal, other] };
  return { result: 'equal', sentences: [equal] };
}

/** Undefined if the request gives the call of the receipt. */
function otherCall({ call }: Receipt, evidence: Evidence): string | undefined {
  const here = callHash(evidence.call);
  if (here === call) return undefined;
  return `The request does not give the call of the receipt here: it is ${call} in the receipt, and ${here} here. It is another request, or its prompt depends on the date, or a limit of the server is missing: give its --max-model-len and --max-tokens-out.`;
}

/** Why nothing here can compute the answer again. other: why the request does not say what was called. */
function whyNot(
  { numerics, continued_by, quantize, num_tokens }: Receipt,
  { info }: OfflineModel,
  call: CanonicalCall | undefined,
  other: string | undefined,
): string | undefined {
  const here = quantizedAs(info.modelIdentity);
  const quantized = (type: string | undefined) =>
    type === undefined ? 'no --quantize' : `--quantize ${type}`;
  if (quantize !== here)
    return `The receipt is of weights that were loaded with ${quantized(quantize)}; here they are loaded with ${quantized(here)}.`;
  if (continued_by !== undefined)
    return `The answer was begun by the numerics ${numerics} and continued by ${continued_by}: no runner computes it alone.`;
  if (numerics !== info.numericsId)
    return `The receipt is of the numerics ${numerics}; those of the runner here are ${info.numericsId}.`;
  if (call === undefined && other !== undefined) return other;
  if (call === undefined)
    return 'The weights and the numerics are those of the receipt. It has only the hashes of the call and of the tokens: give the request and the answer, too.';
  const needed = call.prompt_ids.length + num_tokens;
  if (needed <= info.maxModelLen) return undefined;
  return `Prompt and answer have ${needed} tokens, and the runner here has a context of ${info.maxModelLen}: give a larger --max-model-len.`;
}

/** Names the first token that differs, by the ids of the receipt, else by the text of the answer. */
function positionOf(
  { full }: Receipt,
  computed: Recomputed,
  evidence: Evidence | undefined,
): string | undefined {
  const { tokenIds } = computed;
  if (full !== undefined) {
    const numShared = Math.max(tokenIds.length, full.token_ids.length);
    const index = Array.from({ length: numShared }).findIndex((_, at) => full.token_ids[at] !== tokenIds[at]);
    if (index >= 0)
      return `The tokens differ at token ${index} (from 0): ${full.token_ids[index] ?? 'none'} in the receipt, ${tokenIds[index] ?? 'none'} here.`;
  }
  if (evidence === undefined) return undefined;
  const { options, echoed, said } = evidence;
  if (!said.text.startsWith(echoed)) return 'The answer does not begin with the prompt that it was to echo.';
  const ownText = { ...said, text: said.text.slice(echoed.length) };
  const index = textDiffersAt(computed, options, ownText);
  return index === undefined
    ? undefined
    : `The text of the answer is not that of its tokens from token ${index} on (from 0).`;
}

function unverifiable(sentence: string): Verdict {
  return { result: 'unverifiable', sentences: [sentence] };
}
