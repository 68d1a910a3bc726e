/** What passes between the gateway and the process that renders a template. */

/** First message to the process. */
export interface TemplateSource {
  readonly source: string;
}

/** Others than role and content where a message has them. */
export interface TemplateMessage {
  readonly role: string;
  readonly content: string;
  readonly reasoning_content?: string;
  readonly thinking?: string;
  readonly tool_calls?: readonly object[];
  readonly tool_call_id?: string;
  readonly name?: string;
}

/** All that the template is given by name. */
export type TemplateVariables = {
  readonly messages: readonly TemplateMessage[];
  readonly tools?: readonly object[];
  readonly bos_token: string;
  readonly eos_token: string;
  readonly add_generation_prompt: boolean;
  /** What a client gives it besides. */
  readonly [name: string]: unknown;
};

/** What no client can give a template, by its names: the above, and what it may take for a part of the conversation. */
export const reservedVariables: readonly string[] = [
  'messages',
  'bos_token',
  'eos_token',
  'add_generation_prompt',
  'continue_final_message',
  'tools',
  'documents',
];

/** Every further message to the process; each is answered before the next is sent. */
export interface RenderJob {
  readonly variables: TemplateVariables;
  readonly outputCharsMax: number;
}

/** Answer to the source, and to each job. */
export type TemplateReply = { readonly text: string } | { readonly error: string };
