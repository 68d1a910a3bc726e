import { randomUUID } from 'node:crypto';
import type { ApiError } from '../../errors/api-error.ts';
import type { AnswerEnd } from '../../generation/text-stream.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { jsonText } from '../json-text.ts';
import { endedBy, mark } from '../openai/completion.ts';
import { type ItemText, messageItem, textPart } from './message-item.ts';
import type { ResponsesRequest } from './request.ts';

export interface ResponseFacts {
  readonly request: ResponsesRequest;
  readonly tokenizer: Pick<Tokenizer, 'bytes'>;
  readonly numPromptTokens: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** How an answer ended: what it said, and why it says no more. */
export interface Ending {
  readonly text: ItemText;
  readonly end: AnswerEnd;
}

type Status = 'in_progress' | 'completed' | 'incomplete' | 'failed';

/** Of a response that has ended in any way. */
export function endStatus({ reason }: AnswerEnd): 'completed' | 'incomplete' {
  return reason === 'eos' || reason === 'stop_sequence' ? 'completed' : 'incomplete';
}

/** A response as JSON, at each stage of it. */
export class ResponseObject {
  readonly id = `resp_${randomUUID()}`;
  readonly messageId = `msg_${randomUUID()}`;
  readonly #facts: ResponseFacts;
  readonly #createdAt: number;

  constructor(facts: ResponseFacts) {
    this.#facts = facts;
    this.#createdAt = seconds(facts.now());
  }

  inProgress(): string {
    return this.#json('in_progress', { output: [] });
  }

  ended({ text, end }: Ending): string {
    const status = endStatus(end);
    const isCompleted = status === 'completed';
    return this.#json(status, {
      ...(isCompleted
        ? { completed_at: seconds(this.#facts.now()) }
        : { incomplete_details: { reason: 'max_output_tokens' } }),
      output: [messageItem(this.messageId, status, [textPart(this.#facts.tokenizer, text)])],
      usage: this.#usage(end),
      ...endedBy(end),
      ...mark(end),
    });
  }

  /** text: as far as it came. */
  failed(text: ItemText, { code, message }: ApiError): string {
    const output = [messageItem(this.messageId, 'incomplete', [textPart(this.#facts.tokenizer, text)])];
    return this.#json('failed', { error: { code, message }, output });
  }

  #json(status: Status, stage: object): string {
    const { request } = this.#facts;
    return jsonText({
      id: this.id,
      object: 'response',
      created_at: this.#createdAt,
      status,
      background: false,
      completed_at: null,
      error: null,
      incomplete_details: null,
      instructions: request.instructions ?? null,
      max_output_tokens: request.max_output_tokens ?? null,
      metadata: request.metadata,
      model: request.model,
      output: [],
      parallel_tool_calls: true,
      previous_response_id: null,
      reasoning: { effort: null, summary: null },
      service_tier: 'default',
      store: false,
      temperature: request.temperature,
      text: { format: request.text.described, verbosity: 'medium' },
      tool_choice: 'auto',
      tools: [],
      top_logprobs: request.top_logprobs,
      top_p: request.top_p,
      truncation: 'disabled',
      usage: null,
      ...stage,
    });
  }

  #usage({ numTokens, numCachedTokens }: AnswerEnd): object {
    const { numPromptTokens } = this.#facts;
    return {
      input_tokens: numPromptTokens,
      input_tokens_details: { cached_tokens: numCachedTokens },
      output_tokens: numTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: numPromptTokens + numTokens,
    };
  }
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000);
}
