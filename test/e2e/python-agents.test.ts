import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { withChatTemplate } from '../fixtures/gguf-template.ts';
import { hasPythonClients, runPythonClient } from '../fixtures/python-clients.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { toolTemplate } from '../fixtures/tool-template.ts';

/** Python frameworks for agents against a running server with the default model's weights and a template that knows tools. */

const test = suite('python agents');
const folder = temporaryFolder();

const clientTest = hasPythonClients ? test : test.skip;

const model = folder.write('smollm2.gguf', withChatTemplate(readFileSync(DEFAULT_MODEL), toolTemplate));
const gateway = hasPythonClients ? await Gateway.during(test, model) : undefined;

const run = (client: string): Promise<void> => runPythonClient(client, gateway?.url ?? '');

clientTest('OpenAI’s agents call, hand over, go on with a session, and outlive a kill of the runner', () =>
  run('openai_agents'),
);
clientTest(
  'pydantic-ai’s agents call and give their output by three APIs, through a kill of the runner',
  () => run('pydantic_ai'),
);
clientTest('instructor has its models filled in, whole, in parts, and through a kill of the runner', () =>
  run('instructor'),
);

test.run();
