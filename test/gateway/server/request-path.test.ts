import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { answerOutside } from '../../../gateway/api/error-bodies.ts';
import { operatorGroup } from '../../../gateway/api/operator/routes.ts';
import { close, createHttpServer, listen } from '../../../gateway/server/http-server.ts';
import { randomIds } from '../../../gateway/system/ids.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { testApp } from '../../fixtures/app.ts';
import { httpLimits } from '../../fixtures/http-limits.ts';
import { answersTo, spellings } from '../../fixtures/path-spellings.ts';

const test = suite('request path');
const log = createLog('silent');
const server = createHttpServer(testApp({ modelNames: ['lab/bytes'] }).app.fetch, httpLimits, {
  onError: (error) => answerOutside(error, log, randomIds),
});
let port: number;

test.before(async () => {
  const address = await listen(server, { host: '127.0.0.1', port: 0 });
  port = 'port' in address ? address.port : 0;
});
test.after(() => close(server));

test('a path of operators has one spelling, which proxies can keep from clients', async () => {
  const paths = [...operatorGroup.operations, { method: 'get', path: '/metrics/load' }];
  for (const { method, path } of paths) {
    for (const [target, status] of await answersTo(port, method.toUpperCase(), spellings(path)))
      assert.ok([400, 404, 405].includes(status), `${method} ${target}: ${status}`);
  }
});

test('the spelling itself is served, with a query, a slash at its end, or the name of the server before it', async () => {
  const sent = [
    '/metrics',
    '/metrics?x=/../',
    '/metrics/',
    '/metrics/load',
    'http://localhost/metrics',
    'http://localhost/metrics?x#y',
  ];
  assert.equal(
    await answersTo(port, 'GET', sent),
    sent.map((target) => [target, 200]),
  );
});

test('names in paths may be escaped, as slashes are by some clients', async () => {
  const sent = ['/v1/models/lab/bytes', '/v1/models/lab%2Fbytes', '/models/la%62/b%79tes/'];
  assert.equal(
    await answersTo(port, 'GET', sent),
    sent.map((target) => [target, 200]),
  );
});

test.run();
