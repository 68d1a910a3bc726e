/**
 * A chat template as the model's reader runs it. A template is a program that came with a model file: it may loop, recurse or
 * fill the memory. At worst that ends the reader's process, never the gateway, which bounds the processor time from outside.
 */

import { runInThisContext } from 'node:vm';
import { messageOf } from '../errors/thrown.ts';
import { ChatTemplateError } from './chat-template.ts';
import { Template } from './jinja/template.ts';

/** Longer than the gateway waits. This timeout matters only if the gateway is gone. */
const orphanTimeoutMs = 40_000;
/** A template's own message may have any length. At most this many characters of it are passed on. */
const errorCharsMax = 1_000;
const nestedTooDeep = 'The chat template nests or recurses too deep.';

/** A message of the conversation. Fields other than role and content are present only if the message has them. */
export interface TemplateMessage {
  readonly role: string;
  readonly content: string;
  readonly reasoning_content?: string;
  readonly thinking?: string;
  readonly tool_calls?: readonly TemplateCall[];
  readonly tool_call_id?: string;
  readonly name?: string;
}

/** A call of a tool in a message. */
export interface TemplateCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: object };
}

/** All variables that the template gets. */
type TemplateVariables = {
  readonly messages: readonly TemplateMessage[];
  readonly tools?: readonly object[];
  readonly bos_token: string;
  readonly eos_token: string;
  readonly add_generation_prompt: boolean;
  /** Further variables from the client. */
  readonly [name: string]: unknown;
};

/** The most characters that a render may produce, for messages of this many characters. */
export function outputCharsMax(inputChars: number): number {
  return 4 * inputChars + 2 ** 20;
}

export class BoundedTemplate {
  readonly #template: Template;

  /** Throws ChatTemplateError if the source cannot be parsed. */
  constructor(source: string) {
    this.#template = bounded('The chat template cannot be parsed', () => new Template(source));
  }

  /** charsMax: the most characters of the text. Throws ChatTemplateError. */
  render(variables: TemplateVariables, charsMax: number): string {
    return bounded('The chat template refused the conversation', () => {
      const text = this.#template.render(variables);
      if (text.length <= charsMax) return text;
      throw new Error(`its output has ${text.length} characters; at most ${charsMax} are allowed`);
    });
  }
}

/** Runs `step` and turns its error into a ChatTemplateError. what: the beginning of the error's sentence. */
function bounded<Result>(what: string, step: () => Result): Result {
  // V8's time limit covers whatever a script calls, but a script sees only globals.
  Object.assign(globalThis, { runnelStep: step });
  try {
    return runInThisContext('runnelStep()', { timeout: orphanTimeoutMs }) as Result;
  } catch (error) {
    if (error instanceof RangeError && error.message.includes('call stack'))
      throw new ChatTemplateError(nestedTooDeep);
    const message = messageOf(error);
    throw new ChatTemplateError(`${what}: ${message.slice(0, errorCharsMax).replace(/\.?$/, '.')}`);
  }
}
