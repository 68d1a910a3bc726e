/** A message of the conversation. Fields other than role and content are present only if the message has them. */
export interface TemplateMessage {
  readonly role: string;
  readonly content: string;
  readonly reasoning_content?: string;
  readonly thinking?: string;
  readonly tool_calls?: readonly object[];
  readonly tool_call_id?: string;
  readonly name?: string;
}

/** All variables that the template gets. */
export type TemplateVariables = {
  readonly messages: readonly TemplateMessage[];
  readonly tools?: readonly object[];
  readonly bos_token: string;
  readonly eos_token: string;
  readonly add_generation_prompt: boolean;
  /** Further variables from the client. */
  readonly [name: string]: unknown;
};

/**
 * Names of variables that a client may not set: those above, and those that a template may take for parts of the conversation.
 */
export const reservedVariables: readonly string[] = [
  'messages',
  'bos_token',
  'eos_token',
  'add_generation_prompt',
  'continue_final_message',
  'tools',
  'documents',
];
