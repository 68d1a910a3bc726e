/** The program of the thread that encodes long texts: see encoder-thread.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { finish } from '../system/cooperative-scheduler.ts';
import type { TextSegment } from './added-tokens.ts';
import { BpeTokenizer } from './bpe-tokenizer.ts';
import type { EncodedText, EncoderData, TextPart } from './encoder-thread.ts';

class TextEncoding {
  readonly #calledOff: Int32Array;
  readonly #tokenizer: BpeTokenizer;
  #job = 0;
  #segments: TextSegment[] = [];

  constructor({ tables, calledOff }: EncoderData) {
    this.#calledOff = calledOff;
    this.#tokenizer = finish(BpeTokenizer.of(tables));
  }

  take({ job, segments, isContinued, last }: TextPart): EncodedText | undefined {
    if (job !== this.#job) this.#segments = [];
    this.#job = job;
    for (const [index, segment] of segments.entries()) {
      const before = index === 0 && isContinued ? this.#segments.pop() : undefined;
      this.#segments.push(before === undefined ? segment : { ...segment, text: before.text + segment.text });
    }
    if (last === undefined) return undefined;
    const whole = this.#segments;
    this.#segments = [];
    const ids = this.#encode(job, whole, last.addSpecial);
    return ids === undefined ? undefined : { job, ids: Uint32Array.from(ids) };
  }

  #encode(job: number, segments: readonly TextSegment[], addSpecial: boolean): number[] | undefined {
    const calledOff = this.#calledOff;
    const task = this.#tokenizer.encodeSegments(segments, addSpecial);
    for (;;) {
      if (Atomics.load(calledOff, job % calledOff.length) === job) return undefined;
      const next = task.next();
      if (next.done) return next.value;
    }
  }
}

const encoding = new TextEncoding(workerData);
parentPort?.on('message', (part: TextPart) => {
  const encoded = encoding.take(part);
  if (encoded !== undefined) parentPort?.postMessage(encoded, [encoded.ids.buffer]);
});
