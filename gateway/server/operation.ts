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
  /** Media types. */
  readonly types: readonly string[];
}

const JSON_TYPE = 'application/json';
const SSE_TYPE = 'text/event-stream';

/** An answer in JSON. */
export function json(description: string): Answer {
  return { description, types: [JSON_TYPE] };
}

/** One in JSON, or a stream of events where the request asks for that. */
export function jsonOrEvents(description: string): Answer {
  return { description, types: [JSON_TYPE, SSE_TYPE] };
}
