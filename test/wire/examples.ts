import { routeGroups } from '../../gateway/app.ts';
import { type Exchange, parseWireFile, pathsOf } from './wire-file.ts';

/** The page docs/examples.md: for each documented route a request and its answer, as wire files have them. */

/** The files that are searched, in this order. */
const FILES = [
  ...['plain', 'operators', 'models', 'tokens', 'apply-template', 'embeddings', 'rerank', 'ollama-models'],
  ...['ollama-embed', 'durable', 'durable-execute', 'parking', 'cancel', 'batches', 'batches-cancelled'],
  ...['stored-responses', 'background-responses', 'metrics', 'openapi', 'routes', 'clients-bodies'],
];
/** Longer answers are cut. */
const MAX_LINES = 40;
const LINE_LENGTH = 120;
const JSON_TYPE = 'application/json';

interface Example extends Exchange {
  readonly status: number;
  readonly contentType: string;
  readonly answer: string;
}

function exampleOf(exchange: Exchange): Example {
  const [status, ...lines] = exchange.recorded;
  const blank = lines.indexOf('');
  const type = lines.slice(0, blank).find((line) => line.startsWith('content-type: ')) ?? '';
  return {
    ...exchange,
    status: Number(status),
    contentType: type.replace('content-type: ', ''),
    answer: lines.slice(blank + 1).join('\n'),
  };
}

export const EXAMPLES_PAGE = new URL('../../docs/examples.md', import.meta.url);

/** textOf: reads a wire file. Routes without an example are left out. */
export function examplesPage(textOf: (name: string) => string): string {
  const examples = FILES.flatMap((name) => parseWireFile(textOf(`${name}.txt`)).exchanges.map(exampleOf));
  const sections = routeGroups.flatMap(({ operations }) =>
    operations.flatMap(({ method, path, summary }) => {
      const form = pathsOf(path);
      const ofRoute = examples.filter((each) => each.method.toLowerCase() === method && form.test(each.path));
      const good = ofRoute.filter(({ status }) => status < 300);
      const whole = good.find(({ contentType }) => contentType === JSON_TYPE);
      const streamed = good.find(({ contentType }) => contentType !== JSON_TYPE);
      const shown = [whole, streamed].flatMap((each) => each ?? []);
      if (ofRoute.length === 0) return [];
      // The settings may leave a route out.
      if (shown.length === 0) shown.push(...ofRoute.slice(0, 1));
      return [`## ${method.toUpperCase()} ${path}`, `${summary}.`, ...shown.flatMap(blocksOf)];
    }),
  );
  return [INTRODUCTION.trim(), ...sections].join('\n\n').concat('\n');
}

const INTRODUCTION = `
# Examples

This page has a request and its answer for each route, with an answer in pieces where the route has one. It is made from the recordings
of the tests, whose model writes letters and whose ids are counted; \`…\` stands for what is left out. [api.md](api.md) explains the fields.
`;

function blocksOf({ method, path, headers, body, status, contentType, answer }: Example): string[] {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const asked = [`${method} ${path}`, ...fields, ...(body === undefined ? [] : ['', pretty(body)])];
  const answered = [`${status}`, `content-type: ${contentType}`, '', pretty(answer)];
  return [asked, answered].map((lines) =>
    ['```http', ...cut(lines.join('\n').split('\n')), '```'].join('\n'),
  );
}

/** JSON on as many lines as it needs. Other texts as they are. */
function pretty(text: string): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return text;
  }
  return laidOut(value, '');
}

/** A value with its members on one line if they fit on it, otherwise each on its own, below `indent`. */
function laidOut(value: unknown, indent: string, roomChars = LINE_LENGTH): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  const inner = `${indent}  `;
  const membersWith = (room: number, separator: string): string =>
    Object.entries(value)
      .map(([name, member]) => {
        const before = Array.isArray(value) ? '' : `${JSON.stringify(name)}: `;
        return before + laidOut(member, inner, room - before.length);
      })
      .join(separator);
  const line = open + membersWith(Number.POSITIVE_INFINITY, ', ') + close;
  if (line.length <= roomChars) return line;
  const lines = membersWith(LINE_LENGTH - inner.length, `,\n${inner}`);
  return `${open}\n${inner}${lines}\n${indent}${close}`;
}

function cut(lines: readonly string[]): readonly string[] {
  return lines.length <= MAX_LINES ? lines : [...lines.slice(0, MAX_LINES), '…'];
}
