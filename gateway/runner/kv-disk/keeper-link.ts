/** The keeper's process, started and spoken to. */
import { messageOf } from '../../errors/thrown.ts';
import { ownProgram, startOwn } from '../../system/own-program.ts';
import type { FromKeeper, ToKeeper } from './messages.ts';

export interface KeeperLink {
  /** Drops the message if the process has ended. */
  send(message: ToKeeper): void;
  /** Settles when the process has saved what is left and ended. */
  end(): Promise<void>;
}

/** What the keeper gets of the gateway's environment, which may hold keys. */
const environmentNames = ['PATH', 'HOME', 'TMPDIR'];

/** onEnd: called once, with the reason as a sentence, also if the process cannot be started. */
export function startKeeper(events: {
  onMessage(message: FromKeeper): void;
  onEnd(reason: string): void;
}): KeeperLink {
  let hasEnded = false;
  let resolveEnded: () => void = () => {};
  const ended = new Promise<void>((resolve) => (resolveEnded = resolve));
  const onEnd = (reason: string): void => {
    if (hasEnded) return;
    hasEnded = true;
    resolveEnded();
    events.onEnd(reason);
  };
  const child = startedKeeper();
  if (typeof child === 'string') {
    setImmediate(() => onEnd(child));
    return { send: () => {}, end: () => ended };
  }
  child.on('message', (message: FromKeeper) => events.onMessage(message));
  child.on('error', (error) => onEnd(`The keeper of the file failed: ${error.message}.`));
  child.on('exit', (code, signal) =>
    onEnd(`The keeper of the file ended with ${signal ?? `status ${code}`}.`),
  );
  return {
    send: (message) => {
      // A failed send is followed by the exit.
      if (child.connected) child.send(message, () => {});
    },
    end: async () => {
      if (child.connected) child.disconnect();
      await ended;
    },
  };
}

function startedKeeper() {
  try {
    return startOwn(
      ownProgram('keeper-program', new URL('./keeper-program.ts', import.meta.url)),
      environmentNames,
    );
  } catch (error) {
    return `The keeper of the file cannot be started: ${messageOf(error)}.`;
  }
}
