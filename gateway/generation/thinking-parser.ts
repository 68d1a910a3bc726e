import type { ThinkingFormat } from '../prompt/thinking-format.ts';
import { begunUnits } from './stop-matcher.ts';

/** How an answer thinks, if it thinks at all. */
export interface Thinking {
  readonly format: Pick<ThinkingFormat, 'begin' | 'end'>;
  /** True: the prompt has begun the thinking. False: the answer thinks if it begins with the mark. */
  readonly isOpen: boolean;
  /** The prompt has begun the text of the answer. Only of formats with channels. */
  readonly isClosed?: boolean;
  /** The thinking stays in the text, with its marks. Only of formats with channels: the text of others has them anyway. */
  readonly isInText?: boolean;
  /** A ToolCallParser gets the text. Only of formats with channels. */
  readonly readsCalls?: boolean;
}

/** A piece of an answer, split in two. The marks and the line breaks around them are in neither part. */
export interface ThoughtText {
  readonly thought: string;
  readonly text: string;
}

/** Separates the thinking from the answer in a text that arrives in pieces. */
export interface ThoughtParser {
  /** Whether the text that follows is thought; undefined if it is not known yet. */
  readonly isThinking: boolean | undefined;
  /** Whether tokens that have given nothing so far may be those of a text. */
  readonly holdsText: boolean;
  /** piece: text, or a mark of the format. */
  push(piece: string): ThoughtText;
  /** Ends the text, and returns what was held back. */
  flush(): ThoughtText;
}

type State = 'begin' | 'lead' | 'thought' | 'gap' | 'text';

/** At most this much white space may precede the mark that begins the thinking. With more, the answer is text. */
const maxLeadUnits = 16;
/** At most this many line breaks before the end mark are removed, and held back for that. Earlier ones belong to the thought. */
const maxHeldBreaks = 8;

const nothing: ThoughtText = { thought: '', text: '' };

/**
 * Separates the thinking from the answer in a text that arrives in pieces. How the text was cut makes no difference. Text that
 * may still become a mark is held back.
 */
export class ThinkingParser implements ThoughtParser {
  readonly #begin: string;
  readonly #end: string;
  #state: State;
  /** Text that was pushed and not yet returned. */
  #held = '';

  constructor({ format, isOpen }: Thinking) {
    this.#begin = format.begin;
    this.#end = format.end;
    this.#state = isOpen ? 'lead' : 'begin';
  }

  get isThinking(): boolean | undefined {
    if (this.#state === 'begin') return undefined;
    return this.#state === 'lead' || this.#state === 'thought';
  }

  get holdsText(): boolean {
    return this.#state === 'begin';
  }

  push(text: string): ThoughtText {
    if (this.#state === 'text') return { thought: '', text };
    if (text === '') return nothing;
    this.#held += text;
    if (this.#is('begin')) this.#readBegin();
    if (this.#is('lead')) this.#skipBreaks('thought');
    const thought = this.#is('thought') ? this.#readThought() : '';
    if (this.#is('gap')) this.#skipBreaks('text');
    return { thought, text: this.#is('text') ? this.#takeHeld(this.#held.length) : '' };
  }

  #is(state: State): boolean {
    return this.#state === state;
  }

  flush(): ThoughtText {
    const held = this.#takeHeld(this.#held.length);
    if (this.#state === 'begin') return { thought: '', text: held };
    return this.#state === 'thought' ? { thought: withoutBreaks(held), text: '' } : nothing;
  }

  #readBegin(): void {
    const said = this.#held.trimStart();
    const numLead = this.#held.length - said.length;
    if (numLead > maxLeadUnits) this.#state = 'text';
    else if (said.startsWith(this.#begin)) {
      this.#takeHeld(numLead + this.#begin.length);
      this.#state = 'lead';
    } else if (!this.#begin.startsWith(said)) this.#state = 'text';
  }

  #skipBreaks(next: State): void {
    this.#held = this.#held.replace(/^[\r\n]+/, '');
    if (this.#held !== '') this.#state = next;
  }

  #readThought(): string {
    const at = this.#held.indexOf(this.#end);
    if (at < 0) return this.#takeHeld(this.#held.length - this.#heldUnits());
    const thought = withoutBreaks(this.#takeHeld(at));
    this.#takeHeld(this.#end.length);
    this.#state = 'gap';
    return thought;
  }

  /** The number of UTF-16 units at the end that may still become the mark or the line breaks before it. */
  #heldUnits(): number {
    const units = begunUnits(this.#held, this.#end);
    const said = this.#held.slice(0, this.#held.length - units);
    return units + said.length - withoutBreaks(said).length;
  }

  #takeHeld(units: number): string {
    const taken = this.#held.slice(0, units);
    this.#held = this.#held.slice(units);
    return taken;
  }
}

function withoutBreaks(text: string): string {
  let length = text.length;
  const least = Math.max(length - maxHeldBreaks, 0);
  while (length > least && (text[length - 1] === '\n' || text[length - 1] === '\r')) length--;
  return text.slice(0, length);
}
