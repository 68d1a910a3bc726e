import type { SentToken } from '../../generation/sent-tokens.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { tokenText } from '../../tokenizer/utf8.ts';
import type { ChatLogprobs, CompletionLogprobs, TokenLogprob } from './answers.ts';

/** Log-probabilities in OpenAI's two forms. */

type TokenBytes = Pick<Tokenizer, 'bytes'>;

/** Stands for minus infinity, which JSON cannot express, as in OpenAI's answers. */
const LOWEST_LOGPROB = -9999;

/** The form of chat completions and responses: an entry for each token. */
export function tokenLogprobs(tokenizer: TokenBytes, tokens: readonly SentToken[]): TokenLogprob[] {
  const entry = (id: number, logprob: number) => {
    const bytes = tokenizer.bytes(id);
    return { token: tokenText(bytes).text, logprob: finite(logprob), bytes: [...bytes] };
  };
  // Only tokens of echoed prompts lack log-probabilities, and chats echo none.
  const scored = tokens.flatMap(({ id, logprobs }) => (logprobs === undefined ? [] : [{ id, logprobs }]));
  return scored.map(({ id, logprobs: { logprob, topIds, topLogprobs } }) => ({
    ...entry(id, logprob),
    top_logprobs: topIds.map((topId, rank) => entry(topId, topLogprobs[rank] as number)),
  }));
}

/** The member `logprobs` of a chat completion's choice. */
export function chatLogprobs(tokenizer: TokenBytes, tokens: readonly SentToken[]): ChatLogprobs {
  return { content: tokenLogprobs(tokenizer, tokens), refusal: null };
}

/**
 * The form of completions: four parallel lists. top_logprobs always includes the token itself. The first token of an
 * echoed prompt has null, because nothing comes before it.
 */
export function completionLogprobs(tokenizer: TokenBytes, tokens: readonly SentToken[]): CompletionLogprobs {
  const name = (id: number): string => {
    const { text, isText } = tokenText(tokenizer.bytes(id));
    return isText ? text : `bytes:${text}`;
  };
  return {
    text_offset: tokens.map(({ textOffset }) => textOffset),
    token_logprobs: tokens.map(({ logprobs }) => (logprobs === undefined ? null : finite(logprobs.logprob))),
    tokens: tokens.map(({ id }) => name(id)),
    top_logprobs: tokens.map(({ id, logprobs }) => {
      if (logprobs === undefined) return null;
      const { logprob, topIds, topLogprobs } = logprobs;
      const top = topIds.map((topId, rank) => [name(topId), finite(topLogprobs[rank] as number)] as const);
      return Object.fromEntries([...top, [name(id), finite(logprob)]]);
    }),
  };
}

function finite(logprob: number): number {
  return Math.max(logprob, LOWEST_LOGPROB);
}
