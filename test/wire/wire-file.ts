/**
 * Wire files: requests and their answers, byte for byte, as text. The lines up to `---` of each exchange are written by
 * hand; those behind are recorded. docs/development.md explains the form.
 */

export interface WireFile {
  /** The lines before the first exchange. */
  readonly head: readonly string[];
  /** How the server is set up, for all exchanges of the file. */
  readonly settings: Settings;
  readonly exchanges: readonly Exchange[];
}

export interface Exchange {
  readonly name: string;
  /** Its lines that are written by hand, below its name. */
  readonly written: readonly string[];
  readonly settings: Settings;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined for a request without a body. */
  readonly body: string | undefined;
  /** The status, the headers, an empty line and the body of the answer; empty if none is recorded. */
  readonly recorded: readonly string[];
}

/** What an exchange did: what the runner was asked, and what the client got. */
export interface Played {
  readonly asked: readonly (readonly string[])[];
  /** The lines of the log that the exchange asks for. */
  readonly logged: readonly string[];
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: string;
}

/** The values of each setting, in their order. */
export type Settings = ReadonlyMap<string, readonly string[]>;

const BEGIN = '=== ';
const RECORDED = '---';
const ANSWER = /^--- \d+$/;
const REQUEST = /^([A-Z]+) (\/\S*)$/;
const FIELD = /^([A-Za-z0-9-]+): ?(.*)$/;

/** Parses a wire file. Of the lines behind `---`, the answer is kept as it is. Throws for a line that has no meaning. */
export function parseWireFile(text: string): WireFile {
  const [head = '', ...sections] = `\n${text}`.split(`\n${BEGIN}`);
  const lines = head.split('\n').slice(1);
  return { head: lines, settings: settingsOf(lines), exchanges: sections.map(parseExchange) };
}

function parseExchange(section: string): Exchange {
  const [name = '', ...lines] = section.split('\n');
  const end = lines.findIndex((line) => line === RECORDED || line.startsWith(`${RECORDED} `));
  const written = trimmed(end < 0 ? lines : lines.slice(0, end));
  const at = written.findIndex((line) => REQUEST.test(line));
  const [, method = '', path = ''] = REQUEST.exec(written[at] ?? '') ?? [];
  if (method === '')
    throw new Error(`The exchange ${JSON.stringify(name)} has no request line, such as GET /health.`);
  const request = written.slice(at + 1);
  const blank = request.indexOf('');
  const headers = blank < 0 ? request : request.slice(0, blank);
  const body = blank < 0 ? undefined : request.slice(blank + 1).join('\n');
  const settings = settingsOf(written.slice(0, at));
  const answer = lines.findIndex((line) => ANSWER.test(line));
  const recorded =
    answer < 0 ? [] : [(lines[answer] as string).slice(RECORDED.length + 1), ...lines.slice(answer + 1)];
  const asked = { method, path, headers: Object.fromEntries(headers.map(fieldOf)), body };
  return { name, written, settings, ...asked, recorded: trimmed(recorded) };
}

function settingsOf(lines: readonly string[]): Settings {
  const settings = new Map<string, string[]>();
  for (const line of lines) {
    if (line === '' || line.startsWith('#')) continue;
    const [name, value] = fieldOf(line);
    settings.set(name, [...(settings.get(name) ?? []), value]);
  }
  return settings;
}

function fieldOf(line: string): readonly [string, string] {
  const [, name, value = ''] = FIELD.exec(line) ?? [];
  if (name === undefined)
    throw new Error(`The line ${JSON.stringify(line)} is neither "name: value" nor a comment (#).`);
  return [name, value];
}

function trimmed(lines: readonly string[]): readonly string[] {
  return lines.slice(0, lines.findLastIndex((line) => line !== '') + 1);
}

/** The text of the file with these answers. */
export function wireText({ head, exchanges }: WireFile, played: readonly Played[]): string {
  const sections = exchanges.map(({ name, written }, index) => {
    const { asked = [], logged = [], status, headers = [], body } = played[index] ?? {};
    const asks = asked.flatMap((lines) => [`${RECORDED} asked`, ...lines]);
    const log = logged.length === 0 ? [] : [`${RECORDED} log`, ...logged];
    return [BEGIN + name, ...written, ...asks, ...log, `${RECORDED} ${status}`, ...headers, '', body].join(
      '\n',
    );
  });
  return `${[trimmed(head).join('\n'), ...sections].join('\n\n')}\n`;
}

/** Stands for many times the same character in a body or a script, such as {{x*1000}}. */
const REPEATED = /\{\{(.)\*(\d+)\}\}/gu;

/** The text that a file means. */
export function written(text: string): string {
  return text.replaceAll(REPEATED, (_, char: string, count: string) => char.repeat(Number(count)));
}

/** The characters shown on each side of the first difference: some lines have many thousands. */
const SHOWN_CHARS = 60;

/** Says where the texts of a wire file differ first. Undefined if they are equal. */
export function mismatchOf(path: string, expected: string, actual: string): string | undefined {
  if (expected === actual) return undefined;
  const before = expected.split('\n');
  const now = actual.split('\n');
  const at = before.findIndex((line, index) => line !== now[index]);
  const line = at < 0 ? before.length : at;
  const [wanted, got] = [before[line], now[line]];
  const section =
    before.slice(0, line + 1).findLast((each) => each.startsWith(BEGIN)) ?? '(head of the file)';
  let column = 0;
  while (column < (wanted?.length ?? 0) && wanted?.[column] === got?.[column]) column++;
  const around = (text: string | undefined): string => {
    if (text === undefined) return '(the end of the file)';
    const from = Math.max(0, column - SHOWN_CHARS);
    const to = from + 2 * SHOWN_CHARS;
    return `${from > 0 ? '…' : ''}${text.slice(from, to)}${to < text.length ? '…' : ''}`;
  };
  return [`${path}:${line + 1}`, section, `  expected: ${around(wanted)}`, `  actual:   ${around(got)}`].join(
    '\n',
  );
}

/** The paths of a route in OpenAPI's notation, with or without a query. */
export function pathsOf(route: string): RegExp {
  return new RegExp(`^${route.replaceAll(/\{\w+\}/g, '[^/?]+')}(?:\\?|$)`);
}
