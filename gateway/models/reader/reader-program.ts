/** The main program of a model's reader, a process of the gateway: see model-reader.ts. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ModelFileError } from '../../errors/thrown.ts';
import { ChatRenderer } from '../../prompt/chat-renderer.ts';
import { ChatTemplateError, charactersIn } from '../../prompt/chat-template.ts';
import { marksIn, templateFacts } from '../../prompt/template-features.ts';
import { BpeTokenizer } from '../../tokenizer/bpe-tokenizer.ts';
import { type Steps, shortTextChars } from '../../tokenizer/tokenizer.ts';
import { asModelFileError, readModel } from '../read-model.ts';
import { hashSteps } from '../weights-hash.ts';
import {
  CalledOffError,
  encodeProcessorMs,
  failureOf,
  hashProcessorMs,
  type JobMessage,
  type JobOf,
  type Jobs,
  PartReceiver,
  type Phase,
  parseProcessorMs,
  partOf,
  partsOf,
  type ReaderReply,
  type ReadModel,
  readProcessorMs,
  renderProcessorMs,
  TemplateSourceError,
  templateSourceCharsMax,
} from './messages.ts';

/** Milliseconds of work after which the process looks for messages: a short job does not wait for a long text. */
const sliceMs = 5;

/** Steps of hashSteps(), each of a MiB, that have limits of their own together. */
const partSteps = 64;

interface Model {
  readonly source: string | undefined;
  readonly tokenizer: BpeTokenizer;
  readonly renderer: ChatRenderer | undefined;
}

let model: Model | undefined;
const calledOff = new Set<number>();
const underWay = new Set<number>();

const received = new PartReceiver();
process.on('message', (part: Parameters<PartReceiver['take']>[0]) => {
  const whole = received.take(part);
  if (whole !== undefined) void handle(whole.message as JobMessage);
});
process.on('disconnect', () => process.exit(0));
// Ctrl-C in a terminal also reaches this process, while the draining gateway may still need it.
process.on('SIGINT', () => undefined);

async function handle({ number, job }: JobMessage): Promise<void> {
  if (job === undefined) {
    if (underWay.has(number)) calledOff.add(number);
    return;
  }
  underWay.add(number);
  try {
    send({ number, result: await resultOf(number, job) });
  } catch (error) {
    send({ number, failure: failureOf(error) });
  }
  underWay.delete(number);
  calledOff.delete(number);
}

function send(reply: ReaderReply): void {
  for (const part of partsOf(reply)) process.send?.(part);
}

function enter(number: number, phase: Phase, processorMs: number): void {
  process.send?.(partOf({ number, phase, processorMs } satisfies ReaderReply));
}

async function resultOf(number: number, job: NonNullable<JobMessage['job']>) {
  switch (job.kind) {
    case 'read':
      return read(number, job.path);
    case 'restore':
      model = await modelOf(job);
      return undefined;
    case 'render':
      return render(number, job);
    case 'encode':
      return encode(number, job);
    case 'features':
      enter(number, 'parsing', parseProcessorMs);
      return templateFacts(loaded().source ?? '');
    case 'hash':
      return inSlices(number, hash(number, job.path));
  }
}

async function read(number: number, path: string): Promise<ReadModel> {
  enter(number, 'reading', readProcessorMs);
  const description = await readModel(path);
  const { template = '' } = description;
  try {
    if (template.length > templateSourceCharsMax)
      throw new ChatTemplateError(
        `the chat template has ${template.length} characters; at most ${templateSourceCharsMax} are allowed`,
      );
    const marks = description.template === undefined ? undefined : marksIn(template);
    model = await modelOf({ description, marks });
    return { description, marks };
  } catch (error) {
    if (!(error instanceof ChatTemplateError)) throw asModelFileError(path, error);
    throw new ModelFileError(65, `The model ${path} cannot be used: ${error.message}.`, { cause: error });
  }
}

async function modelOf({ description: { tables, template }, marks }: ReadModel): Promise<Model> {
  const tokenizer = await BpeTokenizer.of(tables);
  const hasTemplate = template !== undefined && marks !== undefined;
  const renderer = hasTemplate ? await ChatRenderer.of(template, marks, tokenizer) : undefined;
  return { source: template, tokenizer, renderer };
}

function loaded(): Model {
  if (model === undefined) throw new Error('The reader got a job before its model.');
  return model;
}

async function render(
  number: number,
  { messages, options, maxTokens }: JobOf<'render'>,
): Promise<Jobs['render']['result']> {
  const { renderer } = loaded();
  if (renderer === undefined) throw new Error('The model has no chat template.');
  if (!renderer.isParsed) {
    enter(number, 'parsing', parseProcessorMs);
    parse(renderer);
  }
  const inputChars = charactersIn([messages, options.tools ?? []]);
  enter(number, 'rendering', renderProcessorMs(messages.length, inputChars));
  const prompt = renderer.render(messages, options);
  if (maxTokens === undefined) return { text: prompt.text };
  if (prompt.length > shortTextChars) enter(number, 'encoding', encodeProcessorMs(prompt.length));
  return { ids: Uint32Array.from(await inSlices(number, prompt.encode(maxTokens))) };
}

function parse(renderer: ChatRenderer): void {
  try {
    renderer.parse();
  } catch (error) {
    throw error instanceof ChatTemplateError ? new TemplateSourceError(error.message) : error;
  }
}

async function encode(
  number: number,
  { texts, options }: JobOf<'encode'>,
): Promise<Jobs['encode']['result']> {
  enter(number, 'encoding', encodeProcessorMs(texts.reduce((sum, { length }) => sum + length, 0)));
  const encoded = await inSlices(number, loaded().tokenizer.encodeInSteps(texts, options));
  const last = encoded.at(-1);
  const leastTokens = last !== undefined && 'leastTokens' in last ? last.leastTokens : undefined;
  const whole = encoded.filter((ids) => 'length' in ids);
  const lengths = Uint32Array.from(whole, ({ length }) => length);
  const ids = new Uint32Array(lengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  for (const each of whole) {
    ids.set(each, at);
    at += each.length;
  }
  return { ids, lengths, leastTokens };
}

/** Hashes the files, and tells of each part that it is begun. */
function* hash(number: number, path: string): Steps<string> {
  const steps = hashSteps(path);
  for (let count = 0; ; count += 1) {
    if (count % partSteps === 0) enter(number, 'hashing', hashProcessorMs);
    const { done, value } = steps.next();
    if (done === true) return value;
    yield;
  }
}

/** Looks for messages between slices, so that the job can be called off and short jobs have their turn. */
async function inSlices<Result>(number: number, steps: Steps<Result>): Promise<Result> {
  for (;;) {
    const endMs = performance.now() + sliceMs;
    let next = steps.next();
    while (!next.done && performance.now() < endMs) next = steps.next();
    if (next.done) return next.value;
    await nextTurn();
    if (calledOff.has(number)) throw new CalledOffError('The job was called off.');
  }
}
