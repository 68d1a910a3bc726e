import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where the gateway keeps what outlives it: the folder of the systemd unit, XDG_STATE_HOME/runnel, or ~/.local/state/runnel. */
export function stateFolder({ STATE_DIRECTORY, XDG_STATE_HOME }: NodeJS.ProcessEnv): string {
  const [ofUnit] = STATE_DIRECTORY?.split(':') ?? [];
  return ofUnit || join(XDG_STATE_HOME || join(homedir(), '.local', 'state'), 'runnel');
}
