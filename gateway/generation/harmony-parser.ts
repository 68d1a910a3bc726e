import { harmonyFormat, harmonyMarks } from '../prompt/harmony-format.ts';
import { markOf, markSign, unmarked } from './control-marks.ts';
import type { Thinking, ThoughtParser, ThoughtText } from './thinking-parser.ts';
import { maxToolNameUnits } from './tool-call-parser.ts';

/**
 * Reads an answer in harmony: messages, each with a header. Messages of the channel `analysis` are thought, those of `final` and
 * `commentary` are text, and those to `functions.NAME` are calls. A message with any other header is text, header and all.
 */

/** What a message is. other: its header is of no known form. over: what follows a call, which ends an answer. */
type Kind = 'thought' | 'text' | 'call' | 'other' | 'over';

/** Longer headers are text. */
const maxHeaderUnits = 256;

const START = markOf(harmonyMarks.start);
const CHANNEL = markOf(harmonyMarks.channel);
const CONSTRAIN = markOf(harmonyMarks.constrain);
const MESSAGE = markOf(harmonyMarks.message);
const ENDS: readonly string[] = [harmonyMarks.end, harmonyMarks.return, harmonyMarks.call].map(markOf);

/** By channels. A header may lack one. */
const KINDS: ReadonlyMap<string, Kind> = new Map([
  ['analysis', 'thought'],
  ['final', 'text'],
  ['commentary', 'text'],
  ['', 'text'],
]);

/** Between two thoughts, and between two texts. */
const BREAK = '\n\n';

const nothing: ThoughtText = { thought: '', text: '' };

export class HarmonyParser implements ThoughtParser {
  /** Text without a header is rare: log-probabilities leave out the tokens that were held. */
  readonly holdsText = false;
  readonly #readsCalls: boolean;
  readonly #isInText: boolean;
  /** Of the message whose content is read; undefined: a header is read. */
  #kind: Kind | undefined;
  /** What has come of the header, with its marks. */
  #header = '';
  /** Whether there was a message of each kind. */
  readonly #has = { thought: false, text: false };
  /** What comes before the next piece. */
  #gap = '';

  constructor({ isOpen, isClosed = false, isInText = false, readsCalls = false }: Thinking) {
    this.#readsCalls = readsCalls;
    this.#isInText = isInText;
    this.#kind = isOpen ? 'thought' : isClosed ? 'text' : undefined;
  }

  get isThinking(): boolean | undefined {
    return this.#kind === undefined ? undefined : this.#kind === 'thought';
  }

  push(piece: string): ThoughtText {
    if (piece === '' || this.#kind === 'over') return nothing;
    if (this.#kind === undefined) return this.#readHeader(piece);
    if (piece === START || piece === CHANNEL || ENDS.includes(piece)) return this.#endMessage(piece);
    return this.#content(unmarked(piece));
  }

  /** A header that is cut short is dropped. Without any mark it is no header. */
  flush(): ThoughtText {
    return this.#kind === undefined ? this.#takeLoose() : nothing;
  }

  #readHeader(piece: string): ThoughtText {
    if (piece === MESSAGE) return this.#beginContent();
    if (piece === START || ENDS.includes(piece)) {
      const loose = this.#takeLoose();
      if (piece === START) this.#header = START;
      return loose;
    }
    this.#header += piece;
    return this.#header.length > maxHeaderUnits ? this.#beginOther('') : nothing;
  }

  /** Text where a header should be. */
  #takeLoose(): ThoughtText {
    const text = this.#header;
    this.#header = '';
    return text.includes(markSign) || text.trim() === '' ? nothing : { thought: '', text };
  }

  #beginContent(): ThoughtText {
    const { kind, name } = messageOf(this.#header);
    if (kind === 'call' && this.#readsCalls) {
      this.#begin('call');
      return { thought: '', text: harmonyFormat.begin + name + harmonyFormat.between };
    }
    if (this.#isInText || (kind !== 'thought' && kind !== 'text'))
      return this.#beginOther(harmonyMarks.message);
    this.#begin(kind);
    this.#gap = this.#has[kind] ? BREAK : '';
    return nothing;
  }

  /** Begins a message whose header is text. */
  #beginOther(last: string): ThoughtText {
    const text = unmarked(this.#header) + last;
    this.#begin('other');
    return this.#content(text);
  }

  #begin(kind: Kind): void {
    this.#kind = kind;
    this.#header = '';
  }

  #content(piece: string): ThoughtText {
    const said = this.#gap + piece;
    this.#gap = '';
    if (this.#kind === 'thought' || this.#kind === 'text') this.#has[this.#kind] = true;
    return this.#kind === 'thought' ? { thought: said, text: '' } : { thought: '', text: said };
  }

  /** mark: the one that ends the message, or begins the header of the next. */
  #endMessage(mark: string): ThoughtText {
    const isShown = this.#isInText && this.#kind === 'other' && ENDS.includes(mark);
    this.#kind = this.#kind === 'call' ? 'over' : undefined;
    this.#gap = '';
    this.#header = ENDS.includes(mark) ? '' : mark;
    return isShown ? { thought: '', text: unmarked(mark) } : nothing;
  }
}

const FUNCTION = /^functions\.([\w-]+)$/;

/** What the header of a message says. The prompt has begun the header of the first message, so it may lack its role. */
function messageOf(header: string): { readonly kind: Kind; readonly name?: string | undefined } {
  const [role = '', ...rest] = header.split(CHANNEL);
  const [named = ''] = (rest.at(-1) ?? '').split(CONSTRAIN);
  const speaker = role.startsWith(START) ? role.slice(START.length) : `assistant${role}`;
  if (!/^assistant\b/.test(speaker)) return { kind: 'other' };
  const [, to] = /\sto=(\S+)/.exec(speaker) ?? /\sto=(\S+)/.exec(named) ?? [];
  // A type of the content may follow the channel.
  if (to === undefined) return { kind: KINDS.get(/^\s*(\S*)/.exec(named)?.[1] ?? '') ?? 'other' };
  const [, name = ''] = FUNCTION.exec(to) ?? [];
  return name === '' || name.length > maxToolNameUnits ? { kind: 'other' } : { kind: 'call', name };
}
