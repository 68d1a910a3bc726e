import { callDigits } from '../../calls/call.ts';
import type { ApiError } from '../../errors/api-error.ts';
import { type AnswerEnd, isCutShort } from '../../generation/text-stream.ts';
import { jsonText } from '../../json/json-text.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { marks } from '../answer-fields.ts';
import type { OutputItem, ResponseJson, Usage } from './answers.ts';
import type { ItemIds } from './output.ts';
import { describedReasoning, describedTools, type ResponsesRequest } from './request.ts';

interface ResponseFacts {
  readonly request: ResponsesRequest;
  readonly tokenizer: Pick<Tokenizer, 'bytes'>;
  readonly numPromptTokens: number;
  /** Whether the answer can neither think nor call tools, so that it begins with a message. */
  readonly beginsWithText: boolean;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** The UUID that its ids contain. */
  readonly uuid: string;
  /** When it was begun, in milliseconds since 1970. */
  readonly createdMs: number;
}

export function responseId(uuid: string): string {
  return `resp_${uuid}`;
}

/** The status of a response that ended without an error. */
export function endStatus(end: AnswerEnd): 'completed' | 'incomplete' {
  return isCutShort(end) ? 'incomplete' : 'completed';
}

/** Writes a response as JSON, in each of its stages. */
export class ResponseObject {
  readonly id: string;
  readonly itemIds: ItemIds;
  readonly #facts: ResponseFacts;
  readonly #createdAt: number;

  constructor(facts: ResponseFacts) {
    this.#facts = facts;
    const { uuid, createdMs } = facts;
    this.id = responseId(uuid);
    this.itemIds = itemIdsOf(uuid);
    this.#createdAt = seconds(createdMs);
  }

  get beginsWithText(): boolean {
    return this.#facts.beginsWithText;
  }

  inProgress(): string {
    return this.#json('in_progress', { output: [] });
  }

  ended(output: OutputItem[], end: AnswerEnd): string {
    const status = endStatus(end);
    const isCompleted = status === 'completed';
    return this.#json(status, {
      ...(isCompleted
        ? { completed_at: seconds(this.#facts.now()) }
        : { incomplete_details: { reason: 'max_output_tokens' } }),
      output,
      usage: this.#usage(end),
      ...marks(end),
    });
  }

  /** output: the items of the answer as far as it arrived. */
  failed(output: OutputItem[], { code, message }: ApiError): string {
    if (code === 'cancelled') return this.#json('cancelled', { output });
    return this.#json('failed', { error: { code, message }, output });
  }

  #json(status: ResponseJson['status'], stage: Partial<ResponseJson>): string {
    const { request } = this.#facts;
    const response: ResponseJson = {
      id: this.id,
      object: 'response',
      created_at: this.#createdAt,
      status,
      background: request.background,
      completed_at: null,
      error: null,
      incomplete_details: null,
      instructions: request.instructions ?? null,
      max_output_tokens: request.max_output_tokens ?? null,
      metadata: request.metadata,
      model: request.model,
      output: [],
      previous_response_id: null,
      reasoning: describedReasoning(request),
      service_tier: 'default',
      store: request.background || request.durable,
      temperature: request.temperature,
      text: { format: request.text.described, verbosity: 'medium' },
      ...describedTools(request),
      top_logprobs: request.top_logprobs,
      top_p: request.top_p,
      truncation: 'disabled',
      usage: null,
      ...stage,
    };
    return jsonText(response);
  }

  #usage({ numTokens, numCachedTokens, numThinkingTokens = 0 }: AnswerEnd): Usage {
    const { numPromptTokens } = this.#facts;
    return {
      input_tokens: numPromptTokens,
      input_tokens_details: { cached_tokens: numCachedTokens },
      output_tokens: numTokens,
      output_tokens_details: { reasoning_tokens: numThinkingTokens },
      total_tokens: numPromptTokens + numTokens,
    };
  }
}

/** Makes the ids of items from the response's UUID. Calls and further messages add their index. */
function itemIdsOf(uuid: string): ItemIds {
  const digits = callDigits(uuid);
  return {
    reasoning: `rs_${uuid}`,
    message: (index) => (index === 0 ? `msg_${uuid}` : `msg_${uuid}_${index}`),
    call: (index) => ({ id: `fc_${digits}_${index}`, callId: `call_${digits}_${index}` }),
  };
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000);
}
