import type { ChildProcess } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';

// Not imported later, when connections may have taken the descriptors that its files need.
import { execa, type Options, type ResultPromise } from 'execa';
import { NoDescriptorsError, withSpawnReserve } from './spawn-reserve.ts';

/** The channel on which Node announces each new ChildProcess before it spawns it. */
const CREATED = 'child_process';

/**
 * Starts a program by execa. Throws NoDescriptorsError if there are no descriptors for its pipes; every other failed start is
 * a result of the promise.
 */
export function startProgram<Chosen extends Options>(
  file: string,
  args: readonly string[],
  options: Chosen,
): ResultPromise<{} & Chosen> {
  let child: ChildProcess | undefined;
  const onCreated = (message: unknown): void => {
    child = (message as { process: ChildProcess }).process;
    // execa reports errors by its promise, but it stops listening when the promise is settled, and it never begins to where
    // other threads took the descriptors: it then throws, and an error that nobody hears would end the gateway.
    child.on('error', () => {});
  };
  return withSpawnReserve(() => {
    subscribe(CREATED, onCreated);
    try {
      return execa(file, args, options);
    } catch (error) {
      if (child === undefined) throw error;
      throw new NoDescriptorsError(error);
    } finally {
      unsubscribe(CREATED, onCreated);
    }
  });
}

/**
 * The environment of a runner: the gateway's own, without variables that a runner taken over by a malicious model file could
 * misuse, such as systemd's sockets and anything that looks like a secret.
 */
const serviceNames = /^(NOTIFY_SOCKET|WATCHDOG_.*|LISTEN_.*|MAINPID|CREDENTIALS_DIRECTORY|SSH_AUTH_SOCK)$/;
const secretNames = /KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|AUTH/i;
/** A password in a URL, as in that of a proxy. */
const passwordInUrl = /:\/\/[^/:\s@]*:[^/\s@]*@/;

export function scrubEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(environment).filter(
    ([name, value]) =>
      !serviceNames.test(name) && !secretNames.test(name) && !passwordInUrl.test(value ?? ''),
  );
  return Object.fromEntries(kept);
}
