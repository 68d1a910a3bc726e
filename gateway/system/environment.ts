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
