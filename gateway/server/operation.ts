import type { z } from 'zod';
import { JSON_TYPE } from '../json/json-text.ts';

/** One route as /openapi.json describes it. Each group of routes has a list of them. */
export interface Operation {
  readonly method: 'get' | 'post' | 'delete';
  /** The path in OpenAPI's notation, such as `/v1/models/{name}`. */
  readonly path: string;
  readonly summary: string;
  /** The schema that the body is checked by. */
  readonly body?: z.ZodType;
  /** Whether a request without a body is served too. */
  readonly isBodyOptional?: boolean;
  /** Media types of the body besides JSON. */
  readonly bodyTypes?: readonly string[];
  /** The request's headers: a description by name. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The parameters of the query string: a description by name. */
  readonly query?: Readonly<Record<string, string>>;
  /** The successful answers, by status. */
  readonly answers: Readonly<Record<number, Answer>>;
}

export interface Answer {
  readonly description: string;
  /** The content by media type. */
  readonly content: Readonly<Record<string, Content>>;
}

/** The content of an answer: a whole body, or the schema of each of its lines or events. */
export type Content =
  | { readonly whole: z.ZodType }
  | { readonly lines: z.ZodType }
  | { readonly events: Events };

/** Server-sent events. */
export interface Events {
  /** The schema of an event's data, by the event's name. */
  readonly named?: Readonly<Record<string, z.ZodType>>;
  /** The schema of the data of events without a name. */
  readonly unnamed?: z.ZodType;
  /** The data of the last event, which is not JSON. */
  readonly last?: string;
}

export const SSE_TYPE = 'text/event-stream';
export const LINES_TYPE = 'application/x-ndjson';

/** An answer in JSON. */
export function json(description: string, whole: z.ZodType): Answer {
  return { description, content: { [JSON_TYPE]: { whole } } };
}

/** An answer in JSON, or a stream of events if the request asks for one. */
export function jsonOrEvents(description: string, whole: z.ZodType, events: Events): Answer {
  return { description, content: { [JSON_TYPE]: { whole }, [SSE_TYPE]: { events } } };
}

/** An answer in JSON, or a stream of JSON lines. */
export function jsonOrLines(description: string, whole: z.ZodType, lines: z.ZodType): Answer {
  return { description, content: { [LINES_TYPE]: { lines }, [JSON_TYPE]: { whole } } };
}
