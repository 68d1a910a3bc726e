import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { scrubEnvironment } from '../../../gateway/system/start-program.ts';

const environment = suite('environment');

environment('a runner gets what programs need', () => {
  const kept = {
    PATH: '/bin',
    HOME: '/root',
    LANG: 'C.UTF-8',
    OMP_NUM_THREADS: '2',
    CUDA_VISIBLE_DEVICES: '0',
  };
  assert.equal(scrubEnvironment(kept), kept);
});

environment('a runner gets neither sockets of systemd nor secrets', () => {
  const dropped = {
    NOTIFY_SOCKET: '/run/systemd/notify',
    WATCHDOG_USEC: '1',
    LISTEN_FDS: '1',
    LISTEN_PID: '1',
    LISTEN_FDNAMES: 'http',
    MAINPID: '1',
    SSH_AUTH_SOCK: '/tmp/s',
    RUNNEL_API_KEY: 'a',
    HF_TOKEN: 'b',
    AWS_SECRET_ACCESS_KEY: 'c',
    DB_PASSWORD: 'd',
    PGPASSWORD: 'e',
    npm_config__authToken: 'f',
    HTTPS_PROXY: 'http://user:password@proxy:3128',
  };
  assert.equal(scrubEnvironment(dropped), {});
  assert.equal(scrubEnvironment({ HTTPS_PROXY: 'http://proxy:3128' }), { HTTPS_PROXY: 'http://proxy:3128' });
});

environment.run();
