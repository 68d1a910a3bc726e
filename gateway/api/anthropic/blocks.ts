import type { EventOutlet, Facts } from '../../calls/call.ts';
import { callDigits } from '../../calls/call.ts';
import type { CallPiece } from '../../generation/tool-call-parser.ts';
import { namedEvent } from '../../server/streams/sse.ts';
import type { Block, CallBlock, MessageEvent, TextBlock, ThinkingBlock } from './answers.ts';

export function textBlock(text: string): TextBlock {
  return { type: 'text', text };
}

export function thinkingBlock(thinking: string, signature: string): ThinkingBlock {
  return { type: 'thinking', thinking, signature };
}

/** The signature of a thinking block, which Anthropic's clients require. Nobody checks it. */
export function signatureOf({ uuid }: Facts): string {
  return `sig_${uuid}`;
}

export function callBlock({ uuid }: Facts, { index, name = '' }: CallPiece, input: object): CallBlock {
  return { type: 'tool_use', id: `toolu_${callDigits(uuid)}_${index}`, name, input };
}

/** The begin of an event with a part of a block's content; the block's index follows. */
const DELTA = 'event: content_block_delta\ndata: {"type":"content_block_delta","index":';
const DELTA_END = '}}\n\n';

/** Writes the blocks of an answer as events, one after the other: each has a start, its deltas and a stop. */
export class BlockEvents {
  readonly #facts: Facts;
  readonly #outlet: EventOutlet;
  #index = -1;
  /** The kind of the last block. */
  #last: 'thought' | 'text' | 'call' | undefined;
  /** The text before the content in each delta of the last block. */
  #delta = '';

  constructor(facts: Facts, outlet: EventOutlet) {
    this.#facts = facts;
    this.#outlet = outlet;
  }

  thought(thought: string): void {
    if (this.#last !== 'thought')
      this.#begin('thought', thinkingBlock('', ''), '{"type":"thinking_delta","thinking":');
    this.#write(thought);
  }

  beginText(): void {
    this.#begin('text', textBlock(''), '{"type":"text_delta","text":');
  }

  text(text: string): void {
    if (this.#last !== 'text') this.beginText();
    this.#write(text);
  }

  /** Writes a whole call, or the next piece of the last one. */
  call(piece: CallPiece): void {
    const isNew = piece.name !== undefined;
    if (isNew)
      this.#begin('call', callBlock(this.#facts, piece, {}), '{"type":"input_json_delta","partial_json":');
    if (isNew || piece.arguments !== '') this.#write(piece.arguments);
  }

  /** Ends the last block. An answer has at least one block besides thinking. */
  end(): void {
    if (this.#last === undefined || this.#last === 'thought') this.beginText();
    this.#stop();
  }

  #begin(kind: 'thought' | 'text' | 'call', content_block: Block, delta: string): void {
    if (this.#last !== undefined) this.#stop();
    this.#last = kind;
    this.#index++;
    this.#delta = `${DELTA}${this.#index},"delta":${delta}`;
    this.#event({ type: 'content_block_start', index: this.#index, content_block });
  }

  #stop(): void {
    if (this.#last === 'thought') {
      const delta = { type: 'signature_delta' as const, signature: signatureOf(this.#facts) };
      this.#event({ type: 'content_block_delta', index: this.#index, delta });
    }
    this.#event({ type: 'content_block_stop', index: this.#index });
  }

  #write(content: string): void {
    this.#outlet.write(this.#delta + JSON.stringify(content) + DELTA_END);
  }

  #event(data: MessageEvent): void {
    this.#outlet.write(namedEvent(data.type, JSON.stringify(data)));
  }
}
