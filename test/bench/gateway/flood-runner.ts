/**
 * A runner without a model, for measuring the gateway. Each step makes one token for each request. `--steps-per-sec N`
 * limits the steps; without it, it makes as many as its pipe takes.
 */
import { parseArgs } from 'node:util';
import Long from 'long';
import {
  encodeFrame,
  FrameDecoder,
  maxBytesFromRunner,
  maxBytesToRunner,
} from '../../../gateway/runner/protocol/frame.ts';
import { protocolVersion } from '../../../gateway/runner/protocol/from-runner.ts';
import { runner } from '../../../gateway/runner/protocol/proto/runner.js';
import { benchVocabSize } from './bench-model.ts';

const { v1 } = runner;

const { values } = parseArgs({ options: { 'steps-per-sec': { type: 'string' } } });
const stepMs = values['steps-per-sec'] === undefined ? 0 : 1000 / Number(values['steps-per-sec']);

interface Sequence {
  readonly maxTokens: number;
  numTokens: number;
  isPaused: boolean;
}

const sequences = new Map<number, Sequence>();
let step = 0;
let isStepping = false;
let nextStepMs = 0;

function send(message: runner.v1.FromRunner.$Properties): boolean {
  return process.stdout.write(encodeFrame(v1.FromRunner.encode(message).finish(), maxBytesFromRunner));
}

function receive(bytes: Uint8Array): void {
  const { generate, cancel, pause, resume } = v1.ToRunner.decode(bytes);
  if (generate)
    sequences.set(generate.requestId ?? 0, {
      maxTokens: generate.maxTokens ?? 0,
      numTokens: 0,
      isPaused: false,
    });
  if (cancel && sequences.delete(cancel.requestId ?? 0))
    send({ requestError: { requestId: cancel.requestId ?? 0, code: v1.ErrorCode.ERROR_CODE_CANCELLED } });
  const sequence = sequences.get((pause ?? resume)?.requestId ?? 0);
  if (sequence !== undefined) sequence.isPaused = Boolean(pause);
  if (!isStepping) void run();
}

async function run(): Promise<void> {
  isStepping = true;
  nextStepMs = Math.max(nextStepMs, performance.now());
  while ([...sequences.values()].some(({ isPaused }) => !isPaused)) {
    const isTaken = runStep();
    nextStepMs += stepMs;
    const waitMs = nextStepMs - performance.now();
    if (!isTaken) await new Promise((resolve) => process.stdout.once('drain', resolve));
    else if (waitMs >= 1) await new Promise((resolve) => setTimeout(resolve, waitMs));
    else if (step % 16 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  isStepping = false;
}

function runStep(): boolean {
  const outputs: runner.v1.Output.$Properties[] = [];
  const firstOutputs: runner.v1.FirstOutput.$Properties[] = [];
  for (const [requestId, sequence] of sequences) {
    if (sequence.isPaused) continue;
    const firstIndex = sequence.numTokens++;
    if (firstIndex === 0) firstOutputs.push({ requestId, numCachedTokens: 0 });
    const isLast = sequence.numTokens === sequence.maxTokens;
    if (isLast) sequences.delete(requestId);
    const finishReason = isLast
      ? v1.FinishReason.FINISH_REASON_MAX_TOKENS
      : v1.FinishReason.FINISH_REASON_UNSPECIFIED;
    const tokenIds = [(firstIndex + requestId) % benchVocabSize];
    outputs.push({ requestId, firstIndex, tokenIds, finishReason });
  }
  step += 1;
  return send({ step: { step: Long.fromInt(step), outputs, firstOutputs } });
}

const decoder = new FrameDecoder(maxBytesToRunner, receive);
process.stdin.on('data', (chunk: Uint8Array) => decoder.push(chunk));
process.stdin.on('end', () => process.exit(0));
send({ hello: { protocolVersion, kind: 'flood', build: '0', numericsId: 'flood-1', sandbox: 'none' } });
send({
  ready: {
    modelIdentity: 'flood',
    architecture: 'llama',
    device: 'none',
    vocabSize: benchVocabSize,
    maxModelLen: 2 ** 30,
    maxNumSeqs: 1024,
    maxNumBatchedTokens: 1024,
    blockSize: 32,
    numBlocks: 1000,
    kvCacheType: 'none',
  },
});
setInterval(() => {
  const phase = sequences.size > 0 ? v1.Phase.PHASE_DECODE : v1.Phase.PHASE_IDLE;
  send({ heartbeat: { phase, step: Long.fromInt(step), numRequests: sequences.size, numFreeBlocks: 1000 } });
}, 1000).unref();
