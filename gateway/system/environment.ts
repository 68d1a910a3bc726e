/**
 * The environment a runner gets: the gateway's own without what a runner that was taken over by a model file could use
 * against it: the sockets of systemd, and anything that looks like a secret.
 */
const serviceNames = /^(NOTIFY_SOCKET|WATCHDOG_.*|LISTEN_.*|MAINPID|CREDENTIALS_DIRECTORY|SSH_AUTH_SOCK)$/;
const secretNames = /KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|AUTH/i;
/** As in the URL of a proxy. */
const passwordInUrl = /:\/\/[^/\s@]*:[^/\s@]*@/;

export function scrubEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(environment).filter(
    ([name, value]) =>
      !serviceNames.test(name) && !secretNames.test(name) && !passwordInUrl.test(value ?? ''),
  );
  return Object.fromEntries(kept);
}
