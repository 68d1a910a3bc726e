import { suite } from 'uvu';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { hasPythonClients, runPythonClient } from '../fixtures/python-clients.ts';

/** Python's clients of OpenAI, Anthropic, Ollama, LangChain, Cohere, LiteLLM, LlamaIndex and llm against a running server. */

const test = suite('python clients');

const clientTest = hasPythonClients ? test : test.skip;

const gateway = hasPythonClients ? await Gateway.during(test, DEFAULT_MODEL) : undefined;

const run = (client: string): Promise<void> => runPythonClient(client, gateway?.url ?? '');

clientTest('openai streams, follows a schema, and reports refusals', () => run('openai'));
clientTest('anthropic streams, counts, and reports refusals', () => run('anthropic'));
clientTest('ollama streams, lists, and reports refusals', () => run('ollama'));
clientTest('langchain-openai answers, streams, batches, and keeps to a schema', () => run('langchain'));
clientTest('cohere ranks documents, and reports refusals', () => run('cohere'));
clientTest('litellm answers by three APIs, makes vectors, ranks, and outlives a kill of the runner', () =>
  run('litellm'),
);
clientTest('LlamaIndex chats, completes, makes vectors, and outlives a kill of the runner', () =>
  run('llama_index'),
);
clientTest(
  'llm with llm-ollama finds the model, answers, goes on with a conversation, and keeps to a schema',
  () => run('llm'),
);

test.run();
