import { type Marks, markOf } from '../generation/control-marks.ts';
import type { Thinking } from '../generation/thinking-parser.ts';
import { harmonyMarks } from '../prompt/harmony-format.ts';
import type { Grammar } from '../runner/runner.ts';
import { formatOfGrammar, jsonFormat, maxJsonWhitespace, structuralTag } from './structural-tag.ts';
import type { Calling, OfferedTool } from './tool-grammar.ts';

/**
 * Grammars of answers in harmony (harmony-format.ts), as structural tags of XGrammar. The prompt ends where the header of a message
 * begins. The stop ids <|return|> and <|call|> end an answer, so an answer has at most one call.
 */

/** The messages that an answer has after its thinking. */
export function harmonyAnswer({ marks }: { readonly marks: Marks }, calling: Calling): Grammar {
  const { tools, choice, text } = calling;
  const write = new Messages(marks);
  const calls = tools.map((tool) => write.call(tool));
  if (choice === 'none') return structuralTag(write.toUser([write.final(write.anything)]));
  if (choice !== 'auto') return structuralTag(or(calls));
  if (text !== undefined) return structuralTag(or([...calls, write.final(text)]));
  return structuralTag(write.toUser([...calls, write.final(write.anything)]));
}

/** The answer that has this form and no call. */
export function harmonyText(marks: Marks, form: Grammar): Grammar {
  return structuralTag(new Messages(marks).final(formatOfGrammar(form)));
}

/** thoughts: how many thoughts may precede the answer. */
export function harmonyAfterThinking(
  marks: Marks,
  answer: Grammar,
  { isOpen }: Thinking,
  thoughts: 'none' | 'one' | 'any',
): Grammar {
  const write = new Messages(marks);
  const { thought } = write;
  const before = {
    none: [],
    one: [optional(thought)],
    any: [{ type: 'star', content: thought }],
  };
  const begun = isOpen ? [write.anything, ...write.next] : [];
  return structuralTag(sequence(...begun, ...before[thoughts], formatOfGrammar(answer)));
}

class Messages {
  readonly #token: Readonly<Record<keyof typeof harmonyMarks, object>>;
  /** The content of a message. */
  readonly anything: object;
  /** The end of a message, and the begin of the next. */
  readonly next: readonly object[];
  readonly thought: object;

  constructor(marks: Marks) {
    const ids = new Map([...marks].map(([id, mark]) => [mark, id]));
    const tokens = Object.entries(harmonyMarks).map(([name, literal]) => {
      return [name, { type: 'token', token: ids.get(markOf(literal)) }];
    });
    this.#token = Object.fromEntries(tokens);
    this.anything = { type: 'any_tokens', exclude_tokens: [...marks.keys()] };
    this.next = [this.#token.end, this.#token.start, text('assistant')];
    this.thought = this.#message('analysis');
  }

  /** Texts for the user, and then one of the last messages. */
  toUser(last: readonly object[]): object {
    return sequence({ type: 'star', content: this.#message('commentary') }, or(last));
  }

  final(content: object): object {
    const { channel } = this.#token;
    return sequence(channel, text('final'), ...this.#typed, content);
  }

  /** Models name the recipient after the channel or, as the template does, before it. */
  call({ name, parameters }: OfferedTool): object {
    const { channel } = this.#token;
    const kind = { type: 'regex', pattern: 'commentary|analysis' };
    const to = text(` to=functions.${name}`);
    const head = or([sequence(channel, kind, to), sequence(to, channel, kind)]);
    return sequence(head, ...this.#typed, jsonFormat(parameters, maxJsonWhitespace));
  }

  #message(kind: string): object {
    const { channel, message } = this.#token;
    return sequence(channel, text(kind), message, this.anything, ...this.next);
  }

  /** The end of a header, which may say that the content is JSON: as models do, or as the template does. */
  get #typed(): readonly object[] {
    const { constrain, message } = this.#token;
    const said = [sequence(optional(text(' ')), constrain, text('json')), text(' json')];
    return [optional(or(said)), message];
  }
}

function optional(content: object): object {
  return { type: 'optional', content };
}

function text(value: string): object {
  return { type: 'const_string', value };
}

function sequence(...elements: readonly object[]): object {
  return elements.length === 1 ? (elements[0] as object) : { type: 'sequence', elements };
}

function or(elements: readonly object[]): object {
  return elements.length === 1 ? (elements[0] as object) : { type: 'or', elements };
}
