import { readFileSync } from 'node:fs';

let known: string | undefined;

export function version(): string {
  if (known !== undefined) return known;
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  known = (JSON.parse(text) as { version: string }).version;
  return known;
}

/** The Node lines that the gateway is tested with. `engines` of package.json allows exactly these. */
export const NODE_LINES: readonly number[] = [20, 22, 24];

export interface NodeFacts {
  readonly version: string;
  readonly is_supported: boolean;
}

/** version: in the form of process.version, such as v22.1.0. */
export function nodeFacts(version: string): NodeFacts {
  return { version, is_supported: NODE_LINES.includes(Number(/^v(\d+)\./.exec(version)?.[1])) };
}

/** A sentence about a Node line that is not supported; undefined for one that is. */
export function nodeFault({ version, is_supported }: NodeFacts): string | undefined {
  if (is_supported) return undefined;
  return `Runnel is not tested with Node ${version}: install Node ${nodeLinesText()}.`;
}

export function nodeLinesText(): string {
  return `${NODE_LINES.slice(0, -1).join(', ')} or ${NODE_LINES.at(-1)}`;
}
