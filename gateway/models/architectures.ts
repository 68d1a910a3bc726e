import { ModelFileError } from '../errors/model-file-error.ts';

/** Values of general.architecture that runners compute; runner/models/registry.cc has the table. */
const ARCHITECTURES: readonly string[] = ['llama', 'qwen2', 'qwen3', 'gpt2', 'gemma3', 'phi3', 'qwen3moe'];
/** Of a name from a file, in an error. */
const shownChars = 80;

/** ModelFileError, in the runners' words, for an architecture that none of them has: no runner need be started to say it. */
export function requireKnownArchitecture(path: string, architecture: string): void {
  if (ARCHITECTURES.includes(architecture)) return;
  const known = ARCHITECTURES.join(', ');
  throw new ModelFileError(
    65,
    `${path} is of architecture ${quoted(architecture)}, which is not supported; supported: ${known}.`,
  );
}

/** As runners quote: what is not printable ASCII is escaped, byte by byte. */
function quoted(name: string): string {
  const bytes = Buffer.from(name);
  const shown = Array.from(bytes.subarray(0, shownChars), (byte) => {
    const char = String.fromCharCode(byte);
    return /[ -~]/.test(char) && !/["\\]/.test(char) ? char : `\\x${byte.toString(16).padStart(2, '0')}`;
  });
  return `"${shown.join('')}${bytes.length > shownChars ? '...' : ''}"`;
}
