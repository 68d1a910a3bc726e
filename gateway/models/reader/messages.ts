/** The messages between the gateway and a model's reader (docs/architecture.md, "The reader"). */
import type { ModelFileError } from '../../errors/model-file-error.ts';
import type { ChatMessage, RenderOptions } from '../../prompt/chat-template.ts';
import type { TemplateFacts, TemplateMarks } from '../../prompt/template-features.ts';
import type { EncodeTextsOptions } from '../../tokenizer/tokenizer.ts';
import type { ModelDescription } from '../model.ts';

/** What is read of a model. */
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
      readonly options: Omit<RenderOptions, 'signal'>;
      /** The most tokens of the prompt; undefined: the prompt is sent back as text. */
      readonly maxTokens: number | undefined;
    };
    readonly result: { readonly ids: Uint32Array } | { readonly text: string };
  };
  readonly encode: {
    readonly job: { readonly texts: readonly string[]; readonly options: EncodeTextsOptions };
    readonly result: {
      /** The ids of all texts. */
      readonly ids: Uint32Array;
      readonly lengths: Uint32Array;
      /** Present if the next text exceeds maxTokens. */
      readonly leastTokens: number | undefined;
    };
  };
  readonly features: { readonly job: object; readonly result: TemplateFacts };
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
export type Phase = 'reading' | 'parsing' | 'rendering' | 'encoding';

/** To the gateway. */
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

/** What a model's reader may cost. */
export interface ReaderLimits {
  /** The most jobs that may wait. The memory that they hold is bounded by --max-body-bytes-in-flight. */
  readonly waitingJobs: number;
  /** The most attempts at one job if the process is killed each time. */
  readonly attempts: number;
  /** The heap of the process, in MiB. */
  readonly heapMb: number;
  /** Milliseconds by the clock for one job, however busy the machine is. Its processor time is bounded by phase. */
  readonly waitMs: number;
  /** The same for the first job of a process, with the start of the process. */
  readonly startWaitMs: number;
  /** The same for reading a file, which may be on a slow disk. */
  readonly readWaitMs: number;
  /** Milliseconds from a failed start to the next one. */
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
