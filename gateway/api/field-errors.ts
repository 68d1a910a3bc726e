import type { z } from 'zod';
import { type FieldError, shown } from '../errors/api-error.ts';

/** Describes the faults of a body from a schema's issues: one sentence for each field, in terms of the request. */

/** Describes the rule that a check's issue broke. constraint is the rule's name. */
export interface Rule {
  readonly constraint: string;
  readonly value?: string;
}

/** The first maxErrors faults, in the order of the schema's fields. */
export function fieldErrors(error: z.ZodError, maxErrors: number): FieldError[] {
  return error.issues
    .slice(0, maxErrors)
    .flatMap((issue) =>
      issue.code === 'unrecognized_keys' ? unknownFields(issue, maxErrors) : [faultOf(issue)],
    )
    .slice(0, maxErrors);
}

type Issue = z.core.$ZodIssue;

function fieldOf(issue: Issue): string {
  return issue.path.map(String).join('.') || 'body';
}

function unknownFields(issue: z.core.$ZodIssueUnrecognizedKeys, maxErrors: number): FieldError[] {
  const prefix = issue.path.length === 0 ? '' : `${fieldOf(issue)}.`;
  return issue.keys.slice(0, maxErrors).map((key) => {
    const field = prefix + (shown(key) || '""');
    return { field, constraint: 'unknown', message: `${field} is not a field of this request` };
  });
}

function faultOf(issue: Issue): FieldError {
  const field = fieldOf(issue);
  const rule = issue.code === 'custom' ? (issue.params as Rule | undefined) : undefined;
  const isMissing = issue.code !== 'custom' && issue.input === undefined;
  const sentence = isMissing ? 'is required' : sentenceOf(issue);
  return {
    field,
    constraint: rule?.constraint ?? (isMissing ? 'required' : 'type'),
    // A check that serves several fields writes its sentence without the field's name.
    message: /^(must|is|has|matches) /.test(sentence) ? `${field} ${sentence}` : sentence,
    ...(rule?.value === undefined ? {} : { value: rule.value }),
  };
}

/** The schema's own sentence if it has one. The library's messages are for people who know the library. */
function sentenceOf(issue: Issue): string {
  const isOwn = issue.code === 'custom' || issue.message.startsWith('must ');
  if (isOwn) return issue.message;
  switch (issue.code) {
    case 'invalid_type':
      return typeSentence(KINDS[issue.expected], got(issue.input, issue.expected));
    case 'invalid_value':
      return `must be ${issue.values.map(quoted).join(' or ')} (got ${got(issue.input, 'number')})`;
    default:
      return typeSentence(undefined, got(issue.input, 'object'));
  }
}

function typeSentence(kind: string | undefined, found: string): string {
  return kind === undefined ? `has the wrong type (got ${found})` : `must be ${kind} (got ${found})`;
}

const KINDS: Readonly<Record<string, string>> = {
  array: 'an array',
  boolean: 'true or false',
  number: 'a number',
  object: 'an object',
  record: 'an object',
  string: 'a string',
};

/**
 * Says what was sent. A text in place of a number or boolean is repeated; other texts, lists and objects may be private.
 */
export function got(value: unknown, expected: string): string {
  if (typeof value === 'string')
    return expected === 'number' || expected === 'boolean' ? quoted(shown(value)) : 'a string';
  if (Array.isArray(value)) return 'an array';
  if (ArrayBuffer.isView(value)) return 'binary data';
  return typeof value === 'object' && value !== null ? 'an object' : shown(value);
}

function quoted(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}
