import { once } from 'node:events';
import { ExitCode, UsageError } from '../errors/exit-code.ts';
import { ProtocolError } from '../runner/protocol/frame.ts';
import { type RecordedEntry, readRecording } from '../runner/protocol/recording.ts';
import { escapeControls, snakeCase } from '../system/printable.ts';
import { command, jsonFlag } from './command.ts';

/** The most items of a list that are shown, since prompts are long. */
const maxItemsShown = 8;

const arrows = { to_runner: '>', from_runner: '<', about: '-' } as const;

/** `runnel frames FILE`: prints a recording of a runner's session, one line for each frame. */
export const frames = command({
  forms: ['frames [--json] FILE'],
  about:
    'Prints a recording that `runnel serve --record FILE` wrote, a line for each frame: the number of steps finished before it, > if the runner received it or < if the runner sent it, its name and its fields. Long lists are shortened. `cpu-runner replay FILE` computes the recorded session again.',
  settings: {
    json: jsonFlag(
      'Print each whole frame as a line of JSON: {"step", "direction", "name", "fields"}, with 64-bit integers as strings and bytes as base64',
    ),
  },
  takesArguments: true,
  examples: ['runnel frames session.frames', 'runnel frames session.frames | head -20'],
  run: async ({ config, positionals }) => {
    const [file] = positionals;
    if (file === undefined || positionals.length !== 1) throw new UsageError('frames takes one FILE.');
    process.stdout.off('error', leaveWithReader).on('error', leaveWithReader);
    try {
      for await (const entry of readRecording(file)) await print(config.json ? jsonOf(entry) : lineOf(entry));
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      throw new UsageError(`${file} is not a recording, or a damaged one: ${error.message}`);
    }
    return ExitCode.ok;
  },
});

/** Writes as fast as the reader reads: the file must not pile up in memory in front of a pager. */
async function print(line: string): Promise<void> {
  if (!process.stdout.write(`${line}\n`)) await once(process.stdout, 'drain');
}

/** `head` and pagers close the pipe when they have seen enough. */
function leaveWithReader(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
  process.exit(ExitCode.ok);
}

function lineOf({ step, direction, name, fields }: RecordedEntry): string {
  return `${step.padStart(6)} ${arrows[direction]} ${name} ${shownFields(fields)}`.trimEnd();
}

function jsonOf({ step, direction, name, fields }: RecordedEntry): string {
  return JSON.stringify({ step, direction, name, fields: inSnakeCase(fields) });
}

/** Renames fields at any depth to the names that the protocol has. */
function inSnakeCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inSnakeCase);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [snakeCase(name), inSnakeCase(field)]),
  );
}

function shownFields(fields: object): string {
  const shown = Object.entries(fields).map(([name, value]) => `${snakeCase(name)} ${shownValue(value)}`);
  return shown.join(', ');
}

function shownValue(value: unknown): string {
  if (Array.isArray(value)) {
    const items = value.slice(0, maxItemsShown).map(shownValue);
    const numLeft = value.length - items.length;
    return `[${items.join(' ')}${numLeft > 0 ? ` and ${numLeft} more` : ''}]`;
  }
  if (typeof value === 'object' && value !== null) return `{${shownFields(value)}}`;
  // Seven digits of a 32-bit float are enough for people. Replay compares the bits.
  if (typeof value === 'number' && !Number.isInteger(value)) return String(Number(value.toPrecision(7)));
  return escapeControls(String(value));
}
