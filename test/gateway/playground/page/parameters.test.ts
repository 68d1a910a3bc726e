import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULTS, requestFields } from '../../../../gateway/playground/page/parameters.ts';

const test = suite('playground parameters');

test('numbers are sent under the names of the API, empty fields are not, and shading asks for log-probabilities', () => {
  assert.equal(requestFields(DEFAULTS), {
    temperature: 0.7,
    max_tokens: 512,
    logprobs: true,
    top_logprobs: 5,
  });
  const parameters = {
    ...DEFAULTS,
    temperature: '',
    topP: '0.9',
    maxTokens: ' ',
    seed: '7',
    isShaded: false,
  };
  assert.equal(requestFields(parameters), { top_p: 0.9, seed: 7 });
});

test.run();
