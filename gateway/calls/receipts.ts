import { ApiError } from '../errors/api-error.ts';
import { messageOf } from '../errors/thrown.ts';
import type { MergedSink } from '../generation/merge-streams.ts';
import {
  callHash,
  canonicalCallOf,
  quantizedAs,
  RECEIPT_VERSION,
  type Receipt,
  type ReceiptForm,
  type ReceiptTerms,
  type StopSearch,
  tokensHash,
} from '../generation/receipt.ts';
import type { AnswerEnd } from '../generation/text-stream.ts';
import type { Model } from '../models/model.ts';
import type { GenerateRequest, RunnerInfo } from '../runner/runner.ts';
import { version } from '../system/version.ts';

/** Puts receipts into answers: the one place for all APIs, which write them as they write the rest of an answer's end. */

/** What was computed. */
interface Computed {
  readonly model: Pick<Model, 'weightsHash'>;
  readonly numericsId: string;
  /** By choice. */
  readonly requests: readonly GenerateRequest[];
  readonly search: StopSearch;
}

export function termsOf(form: ReceiptForm, { kind, build }: RunnerInfo): ReceiptTerms {
  return { form, versions: { gateway: version(), runner: `${kind} ${build}` } };
}

/**
 * The same sink, but each answer's end has its receipt. The last part of an answer waits until the weights have been hashed, which is
 * begun now if no answer has begun it. Without terms there are no receipts.
 */
export function withReceipts(
  sink: MergedSink,
  terms: ReceiptTerms | undefined,
  { model, numericsId, requests, search }: Computed,
): MergedSink {
  if (terms === undefined) return sink;
  const weights = model.weightsHash().catch((error) => {
    throw unavailable(error);
  });
  // Whoever needs it hears of the failure.
  weights.catch(() => {});
  const tokenIds = requests.map((): number[] => []);
  let hasFailed = false;
  const fail = (error: unknown): void => {
    if (hasFailed) return;
    hasFailed = true;
    sink.onError(error);
  };
  const receiptOf = async (index: number, end: AnswerEnd): Promise<Receipt> => {
    const request = requests[index] as GenerateRequest;
    const ids = tokenIds[index] as number[];
    const call = canonicalCallOf(request, search);
    const quantize = quantizedAs(request.modelIdentity);
    return {
      version: RECEIPT_VERSION,
      weights: await weights,
      ...(quantize === undefined ? {} : { quantize }),
      numerics: numericsId,
      ...(end.continuedBy === undefined ? {} : { continued_by: end.continuedBy }),
      call: callHash(call),
      seed: call.seed,
      tokens: tokensHash(ids),
      num_tokens: ids.length,
      stop_reason: end.reason,
      versions: terms.versions,
      ...(terms.form === 'full' ? { full: { call, token_ids: ids } } : {}),
    };
  };
  return {
    onPart: (part, index) => {
      for (const id of part.tokenIds) tokenIds[index]?.push(id);
      const { end } = part;
      if (end === undefined) return sink.onPart(part, index);
      receiptOf(index, end)
        .then((receipt) => {
          if (!hasFailed) sink.onPart({ ...part, end: { ...end, receipt } }, index);
        })
        .catch(fail);
    },
    onError: fail,
  };
}

function unavailable(error: unknown): ApiError {
  const message = `The answer was computed, but its receipt cannot be made: ${messageOf(error)} Send the request without receipt, or have the server read the model again (SIGHUP).`;
  return new ApiError({ status: 503, code: 'receipt_unavailable', message, cause: error });
}
