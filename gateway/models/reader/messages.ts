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
