import { StringDecoder } from 'node:string_decoder';
import * as z from 'zod';
import { UnavailableError } from '../errors/thrown.ts';
import { escapeControls } from '../system/printable.ts';
import { reasonOf, type Server } from './server.ts';

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
}

/** What one event adds to an answer. */
export interface AnswerEvent {
  readonly text: string;
  /** New thinking, which comes before the text. */
  readonly thought: string;
  readonly finish: string | undefined;
  readonly usage: Usage | undefined;
}

const usageSchema = z.object({ prompt_tokens: z.number(), completion_tokens: z.number() });

const chunkSchema = z.object({
  choices: z
    .array(
      z.object({
        delta: z
          .object({
            content: z.string().nullish(),
            reasoning_content: z.string().nullish(),
            // Ollama's name for the same field.
            reasoning: z.string().nullish(),
          })
          .nullish(),
        text: z.string().nullish(),
        finish_reason: z.string().nullish(),
      }),
    )
    .default([]),
  usage: usageSchema.nullish(),
  error: z.object({ message: z.string() }).nullish(),
});

/**
 * Streams an answer of /v1/chat/completions or /v1/completions, event by event. Throws the errors of Server.send(), and
 * UnavailableError for a stream that fails, ends too early or does not have OpenAI's format. If the signal aborts it, the
 * stream ends without an error.
 */
export async function* streamAnswer(
  server: Server,
  path: string,
  body: object,
  signal: AbortSignal,
): AsyncGenerator<AnswerEvent> {
  let isEnded = false;
  let numChars = 0;
  try {
    const asked = { ...body, stream: true, stream_options: { include_usage: true } };
    for await (const data of eventData(await server.send('POST', path, asked, signal))) {
      if (data === '[DONE]') return;
      const event = answerEvent(data, server.url);
      isEnded ||= event.finish !== undefined;
      numChars += event.text.length;
      yield event;
    }
  } catch (error) {
    if (signal.aborted) return;
    if (!isBroken(error)) throw error;
    throw interrupted(server, numChars, `: ${reasonOf(error)}`);
  }
  if (!isEnded && !signal.aborted) throw interrupted(server, numChars, '');
}

/** Whether the error is one of the connection, as Node reports it. */
function isBroken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && typeof error.code === 'string';
}

function interrupted({ url }: Server, numChars: number, reason: string): UnavailableError {
  return new UnavailableError(
    `The connection to ${url} was interrupted after ${numChars} characters of the answer${reason}.`,
  );
}

function answerEvent(data: string, url: string): AnswerEvent {
  let parsed: z.infer<typeof chunkSchema>;
  try {
    parsed = chunkSchema.parse(JSON.parse(data));
  } catch {
    throw new UnavailableError(`${url} sent an event that is not in the format of OpenAI's API.`);
  }
  if (parsed.error) throw new UnavailableError(`The answer failed: ${escapeControls(parsed.error.message)}`);
  const [choice] = parsed.choices;
  const { reasoning_content, reasoning } = choice?.delta ?? {};
  return {
    text: choice?.delta?.content ?? choice?.text ?? '',
    thought: reasoning_content ?? reasoning ?? '',
    finish: choice?.finish_reason ?? undefined,
    usage: parsed.usage ?? undefined,
  };
}

/** The longest line of an event stream that is accepted. */
const MAX_LINE_CHARS = 2 ** 22;

/**
 * Yields the data of server-sent events as they come. Comments and event names are left out; several data lines of an event are
 * joined.
 */
export async function* eventData(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  let data: string[] = [];
  for await (const bytes of body) {
    const lines = (rest + decoder.write(Buffer.from(bytes))).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > MAX_LINE_CHARS)
      throw new UnavailableError(`The server sent a line of more than ${MAX_LINE_CHARS} characters.`);
    for (const line of lines.map((text) => text.replace(/\r$/, ''))) {
      if (line.startsWith('data:')) data.push(line.slice('data:'.length).replace(/^ /, ''));
      if (line !== '' || data.length === 0) continue;
      yield data.join('\n');
      data = [];
    }
  }
}
