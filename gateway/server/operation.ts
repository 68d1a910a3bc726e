import type { z } from 'zod';

/** One route as /openapi.json describes it; each group of routes has a list of its own. */
export interface Operation {
  readonly method: 'get' | 'post' | 'delete';
  /** As OpenAPI writes it, such as `/v1/models/{name}`. */
  readonly path: string;
  readonly summary: string;
  /** What the body is checked by. */
  readonly body?: z.ZodType;
  /** A request without a body is served, too. */
  readonly isBodyOptional?: boolean;
  /** Besides JSON. */
  readonly bodyTypes?: readonly string[];
  /** Of the request, by their names, and what they say. */
  readonly headers?: Readonly<Record<string, string>>;
  /** What may stand behind the path's question mark, likewise. */
  readonly query?: Readonly<Record<string, string>>;
  /** By status, those that are no error. */
  readonly answers: Readonly<Record<number, Answer>>;
}

export interface Answer {
  readonly description: string;
  /** By media type. */
  readonly content: Readonly<Record<string, Content>>;
}

/** An answer of one type: all of it, or each of its lines or events. */
export type Content =
  | { readonly whole: z.ZodType }
  | { readonly lines: z.ZodType }
  | { readonly events: Events };

/** Server-sent events. */
export interface Events {
  /** The data of each, by the event's name. */
  readonly named?: Readonly<Record<string, z.ZodType>>;
  /** That of events without a name. */
  readonly unnamed?: z.ZodType;
  /** The data of the last one, which is no JSON. */
  readonly last?: string;
}

const JSON_TYPE = 'application/json';
export const SSE_TYPE = 'text/event-stream';

/** An answer in JSON. */
export function json(description: string, whole: z.ZodType): Answer {
  return { description, content: { [JSON_TYPE]: { whole } } };
}

/** One in JSON, or a stream of events where the request asks for that. */
export function jsonOrEvents(description: string, whole: z.ZodType, events: Events): Answer {
  return { description, content: { [JSON_TYPE]: { whole }, [SSE_TYPE]: { events } } };
}

/** One in JSON, or a stream of its lines. */
export function jsonOrLines(description: string, whole: z.ZodType, lines: z.ZodType): Answer {
  return { description, content: { 'application/x-ndjson': { lines }, [JSON_TYPE]: { whole } } };
}
