/** The messages between the gateway and a model's reader (docs/architecture.md, "The reader"). */

import { isTypedArray } from 'node:util/types';
import { isShortage, ModelFileError, messageOf, UnavailableError } from '../../errors/thrown.ts';
import {
  type ChatMessage,
  ChatTemplateError,
  PromptTooLongError,
  type RenderOptions,
} from '../../prompt/chat-template.ts';
import type { TemplateFacts, TemplateMarks } from '../../prompt/template-features.ts';
import type { EncodeTextsOptions } from '../../tokenizer/tokenizer.ts';
import type { ModelDescription } from '../model.ts';

export interface ReadModel {
  readonly description: ModelDescription;
  /** Undefined without a template. */
  readonly marks: TemplateMarks | undefined;
}

/** A job, and what is sent back when it is done. */
export interface Jobs {
  /** The first job of the first process. */
  readonly read: { readonly job: { readonly path: string }; readonly result: ReadModel };
  /** The first job of each later process, which gets what the first one has read. */
  readonly restore: { readonly job: ReadModel; readonly result: undefined };
  readonly render: {
    readonly job: {
      readonly messages: readonly ChatMessage[];
      readonly options: Omit<RenderOptions, 'signal' | 'caller'>;
      /** The most tokens of the prompt; undefined: the prompt is sent back as text. */
      readonly maxTokens: number | undefined;
    };
    readonly result: { readonly ids: Uint32Array } | { readonly text: string };
  };
  readonly encode: {
    readonly job: { readonly texts: readonly string[]; readonly options: Omit<EncodeTextsOptions, 'caller'> };
    readonly result: {
      readonly ids: Uint32Array;
      readonly lengths: Uint32Array;
      /** Present if the next text exceeds maxTokens. */
      readonly leastTokens: number | undefined;
    };
  };
  readonly features: { readonly job: object; readonly result: TemplateFacts };
  readonly hash: { readonly job: { readonly path: string }; readonly result: string };
}

export type JobKind = keyof Jobs;
export type JobOf<Kind extends JobKind> = { readonly kind: Kind } & Jobs[Kind]['job'];
export type Job = { [Kind in JobKind]: JobOf<Kind> }[JobKind];

/** From the gateway: a job with a new number, or a number alone, whose job is then called off. */
export interface JobMessage {
  readonly number: number;
  readonly job: Job | undefined;
}

/** What a job is doing. Each phase has a limit of processor time. */
export type Phase = 'reading' | 'parsing' | 'rendering' | 'encoding' | 'hashing';

export type ReaderReply =
  | { readonly number: number; readonly phase: Phase; readonly processorMs: number }
  | { readonly number: number; readonly result: Jobs[JobKind]['result'] }
  | { readonly number: number; readonly failure: Failure };

export type Failure =
  | { readonly kind: 'file'; readonly exitCode: ModelFileError['exitCode']; readonly message: string }
  /** isInSource: every conversation would fail. */
  | { readonly kind: 'template'; readonly message: string; readonly isInSource: boolean }
  | { readonly kind: 'too_long'; readonly leastTokens: number }
  | { readonly kind: 'shortage'; readonly message: string }
  | { readonly kind: 'called_off' }
  | { readonly kind: 'internal'; readonly message: string };

/** The job was called off, and the process works on it no more. */
export class CalledOffError extends Error {
  override readonly name = 'CalledOffError';
}

/** The source of the template is at fault: every conversation would fail. */
export class TemplateSourceError extends ChatTemplateError {}

export function failureOf(error: unknown): Failure {
  if (error instanceof CalledOffError) return { kind: 'called_off' };
  if (error instanceof PromptTooLongError) return { kind: 'too_long', leastTokens: error.leastTokens };
  if (error instanceof ModelFileError)
    return { kind: 'file', exitCode: error.exitCode, message: error.message };
  if (error instanceof ChatTemplateError)
    return { kind: 'template', message: error.message, isInSource: error instanceof TemplateSourceError };
  const message = messageOf(error);
  return { kind: isShortage(error) ? 'shortage' : 'internal', message };
}

export function errorOf(failure: Failure): Error {
  switch (failure.kind) {
    case 'file':
      return new ModelFileError(failure.exitCode, failure.message);
    case 'template':
      return new (failure.isInSource ? TemplateSourceError : ChatTemplateError)(failure.message);
    case 'too_long':
      return new PromptTooLongError(failure.leastTokens);
    case 'shortage':
      return new UnavailableError(
        `The model's reader lacks something of the machine: ${failure.message}.`,
        1,
      );
    case 'called_off':
      return new CalledOffError('The job was called off.');
    case 'internal':
      return new Error(`The model's reader failed: ${failure.message}`);
  }
}

/** What a model's reader may cost. */
export interface ReaderLimits {
  /** The most jobs that may wait; a caller that has less than its share may exceed it (SharedLimit). The memory that they hold is bounded by --max-body-bytes-in-flight. */
  readonly waitingJobs: number;
  /** The most attempts at one job if the process is killed each time. */
  readonly attempts: number;
  readonly heapMb: number;
  /** Milliseconds by the clock for one job, however busy the machine is. Its processor time is bounded by phase. */
  readonly waitMs: number;
  /** The same for the first job of a process, with the start of the process. */
  readonly startWaitMs: number;
  /** The same for reading a file, and for each part of one that is hashed: it may be on a slow disk. */
  readonly readWaitMs: number;
  readonly startPauseMs: number;
  /** Milliseconds between looks at the processor time. */
  readonly pollMs: number;
  /** Milliseconds without a job after which the process of a model that is not served ends. */
  readonly idleMs: number;
}

export const readerLimits: ReaderLimits = {
  waitingJobs: 4096,
  attempts: 2,
  heapMb: 1024,
  waitMs: 30_000,
  startWaitMs: 30_000,
  readWaitMs: 600_000,
  startPauseMs: 1_000,
  pollMs: 100,
  idleMs: 10_000,
};

export const templateSourceCharsMax = 2 ** 20;

/** Limits of processor time in milliseconds. */
export const readProcessorMs = 60_000;
export const parseProcessorMs = 5_000;
/** Of each part of the files that are hashed, whatever their size. */
export const hashProcessorMs = 60_000;

/**
 * The processor time in milliseconds that a render may take: two seconds, half a millisecond for each message and one
 * millisecond for each 2,000 characters, at most ten seconds. Templates of known models take less than a tenth of it.
 */
export function renderProcessorMs(numMessages: number, inputChars: number): number {
  return Math.min(10_000, 2_000 + numMessages / 2 + inputChars / 2_000);
}

/** The same for encoding texts: twenty times what the slowest known text takes, a word without end. */
export function encodeProcessorMs(numChars: number): number {
  return 5_000 + numChars / 100;
}

const partBytes = 2 ** 18;

const arrays = { Uint8Array, Int32Array, Uint32Array, Float64Array } as const;
type ArrayKind = keyof typeof arrays;
type SentArray = InstanceType<(typeof arrays)[ArrayKind]>;

interface Place {
  readonly arrayIndex: number;
  readonly kind: ArrayKind;
  readonly length: number;
}

/**
 * Messages with large arrays are sent in parts: a vocabulary has many megabytes, and receiving them at once would hold up the
 * event loop. The first part has the message with a Place for each array, and the others have the bytes of the arrays in order. numBytes: the
 * bytes of all arrays; undefined for a message without arrays, which is not searched for them.
 */
export type Part =
  | { readonly message: unknown; readonly numBytes: number | undefined }
  | { readonly bytes: Uint8Array };

/** A message that has no arrays is one part. */
export function partOf(message: unknown): Part {
  return { message, numBytes: undefined };
}

/** The parts of a message whose arrays are members of plain objects, at any depth. */
export function* partsOf(message: unknown): Generator<Part> {
  const found: SentArray[] = [];
  const shape = withPlaces(message, found);
  yield { message: shape, numBytes: found.reduce((sum, { byteLength }) => sum + byteLength, 0) };
  for (const { buffer, byteOffset, byteLength } of found) {
    for (let at = 0; at < byteLength; at += partBytes)
      yield { bytes: new Uint8Array(buffer, byteOffset + at, Math.min(partBytes, byteLength - at)) };
  }
}

function withPlaces(value: unknown, found: SentArray[]): unknown {
  if (isTypedArray(value)) {
    const kind = value.constructor.name;
    if (!isKind(kind)) throw new TypeError(`An array of the kind ${kind} cannot be sent.`);
    const place: Place = { arrayIndex: found.length, kind, length: value.length };
    found.push(value as SentArray);
    return place;
  }
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withPlaces(member, found)]));
}

function isKind(name: string): name is ArrayKind {
  return name in arrays;
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

export class PartReceiver {
  #message: unknown;
  #arrays: SentArray[] = [];
  #bytes: Uint8Array[] = [];
  #missingBytes = 0;
  /** The array that the next bytes belong to, and where in it. */
  #index = 0;
  #at = 0;

  /** Returns the message as a member of an object if this part is its last one. */
  take(part: Part): { readonly message: unknown } | undefined {
    if ('message' in part) this.#begin(part.message, part.numBytes);
    else this.#write(part.bytes);
    return this.#missingBytes === 0 ? { message: this.#message } : undefined;
  }

  #begin(message: unknown, numBytes: number | undefined): void {
    this.#arrays = [];
    this.#message = numBytes === undefined ? message : this.#withArrays(message);
    this.#bytes = this.#arrays.map(
      ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength),
    );
    this.#missingBytes = numBytes ?? 0;
    this.#index = 0;
    this.#at = 0;
  }

  #withArrays(value: unknown): unknown {
    if (!isPlainObject(value)) return value;
    if (isPlace(value)) {
      const array = new arrays[value.kind](value.length);
      this.#arrays[value.arrayIndex] = array;
      return array;
    }
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [name, this.#withArrays(member)]),
    );
  }

  /** A part never has bytes of two arrays. */
  #write(bytes: Uint8Array): void {
    while (this.#at === this.#bytes[this.#index]?.length) {
      this.#index++;
      this.#at = 0;
    }
    this.#bytes[this.#index]?.set(bytes, this.#at);
    this.#at += bytes.length;
    this.#missingBytes -= bytes.length;
  }
}

function isPlace(value: object): value is Place {
  return 'arrayIndex' in value && 'kind' in value && 'length' in value;
}
