import { whole } from '../config/kinds.ts';
import { backendFaults, backendOf, runnerSettings } from '../config/runner-settings.ts';
import { inGroup, onlyFlags } from '../config/setting.ts';
import { ExitCode, refuse, UsageError } from '../errors/exit-code.ts';
import type { Model } from '../models/model.ts';
import { resolveModel } from '../models/model-cache.ts';
import { loadModel } from '../models/model-slot.ts';
import { ModelReader } from '../models/reader/model-reader.ts';
import type { TemplateFacts } from '../prompt/template-features.ts';
import { diagnose } from '../runner/backends/diagnosis.ts';
import { inspectBy, type RunnerInspection } from '../runner/backends/model-memory.ts';
import { isEncoder } from '../runner/runner.ts';
import { megabytes } from '../system/printable.ts';
import { command, jsonFlag } from './command.ts';
import { deviceSettings } from './doctor.ts';

/** The limit of --batch, equal to the runners' limit of --max-num-seqs. */
const maxBatch = 1024;
/** The limit of --context. Up to this position, angles are exact. */
const maxContext = 2 ** 20;

/** The output of the command. Null means that a value is not known. */
export interface Inspection {
  readonly model: string;
  readonly path: string;
  readonly architecture: string;
  readonly context_length: number;
  readonly quant_kind: string | null;
  readonly tokenizer: { readonly kind: string; readonly pre: string | null; readonly vocab_size: number };
  readonly chat_template: TemplateFacts | null;
  readonly num_parameters: number | null;
  readonly rope_theta: number | null;
  readonly layers: RunnerInspection['layers'] | null;
  readonly file_bytes: number | null;
  readonly tensors: RunnerInspection['tensors'] | null;
  readonly memory: {
    readonly context: number;
    readonly batch: number;
    /** What the runner holds before it loads anything; 0 on a device. */
    readonly process_bytes: number;
    readonly weights_bytes: number;
    readonly kv_cache_bytes: number;
    /** Of a step: the rows between its operations, attention's intermediate results, logits. */
    readonly rows_bytes: number;
    readonly attention_bytes: number;
    readonly logits_bytes: number;
    /** Kept for what requests add. */
    readonly requests_bytes: number;
    readonly total_bytes: number;
    /** What can be had beside process_bytes. */
    readonly available_bytes: number | null;
  } | null;
  readonly backend: 'cpu' | 'cuda' | null;
  readonly device: string | null;
  /** Why the model cannot be served here, as a sentence; null if it can. */
  readonly obstacle: string | null;
}

/** The settings that the plan of the memory depends on, besides context and number of requests. */
const planSettings = {
  ...deviceSettings,
  threads: runnerSettings.threads,
  numa: runnerSettings.numa,
  'kv-cache-type': runnerSettings['kv-cache-type'],
  quantize: runnerSettings.quantize,
  'tensor-parallel-size': runnerSettings['tensor-parallel-size'],
} as const;

/** `runnel inspect`: says what a model file is and whether it can be served here. */
export const inspect = command({
  forms: ['inspect MODEL [--json] [options]'],
  about:
    'Says what a model file contains, what its tokenizer and chat template are, and how much memory serving it needs. The exit status is 0 if `runnel serve` with the same options can serve it on this machine; else 69, with the reason.',
  settings: {
    ...onlyFlags(
      inGroup('Model', {
        context: whole(2, maxContext)
          .optional("the model's context")
          .help('Maximum tokens of a prompt and its answer together'),
        batch: whole(1, maxBatch).or(1).help(`Number of requests of this length at once, 1 to ${maxBatch}`),
      }),
    ),
    json: jsonFlag('Print a JSON object'),
    ...planSettings,
  },
  takesArguments: true,
  examples: ['runnel inspect smollm2', 'runnel inspect model.gguf --json --context 4096 --batch 8'],
  run: async ({ config, sourceOf, positionals }) => {
    refuse(backendFaults(config, sourceOf));
    const [name] = positionals;
    if (name === undefined || positionals.length > 1) throw new UsageError('inspect takes one MODEL.');
    const { context, batch } = config;
    const path = resolveModel(name);
    const model = await loadModel(path);
    if (context !== undefined && context > model.contextLength)
      throw new UsageError(
        `--context is ${context}, but ${model.id} has a context of ${model.contextLength} tokens.`,
      );
    const backend = backendOf(config);
    const { serves: found, advice } = await diagnose({
      backend,
      runner: config.runner,
      cudaRunner: config['cuda-runner'],
      gpuDevice: Math.max(0, config['gpu-device'] ?? 0),
    });
    const serves = found === 'cuda' && backend === 'auto' && isEncoder(model.architecture) ? 'cpu' : found;
    const given = (
      ...names: ('threads' | 'numa' | 'kv-cache-type' | 'quantize' | 'tensor-parallel-size')[]
    ) => names.flatMap((name) => (config[name] === undefined ? [] : [`--${name}`, String(config[name])]));
    const device =
      serves === 'cuda'
        ? ['--gpu-device', String(Math.max(0, config['gpu-device'] ?? 0))]
        : given('threads', 'numa');
    const flags = [...device, ...given('kv-cache-type', 'quantize', 'tensor-parallel-size')];
    const runner = serves === 'cuda' ? config['cuda-runner'] : config.runner;
    const told =
      serves === null
        ? (advice[0] ?? 'No runner can compute on this machine.')
        : await inspectBy(runner, { model: path, context, batch, flags });
    const inspection = { ...(await factsOf(model)), ...runnerFacts(told, batch), backend: serves };
    process.stdout.write(`${config.json ? JSON.stringify(inspection) : textOf(inspection)}\n`);
    return inspection.obstacle === null ? ExitCode.ok : ExitCode.unavailable;
  },
});

async function factsOf(model: Model) {
  const { chatTemplate, tokenizer } = model;
  return {
    model: model.id,
    path: model.path,
    architecture: model.architecture,
    context_length: model.contextLength,
    quant_kind: model.quantKind ?? null,
    tokenizer: { kind: tokenizer.kind, pre: model.tokenizerPre ?? null, vocab_size: tokenizer.vocabSize },
    chat_template: chatTemplate instanceof ModelReader ? await chatTemplate.features() : null,
  };
}

/** told: what the runner says, or why it says nothing. */
function runnerFacts(told: RunnerInspection | string, batch: number) {
  if (typeof told === 'string') {
    const shape = { num_parameters: null, rope_theta: null, layers: null };
    return { ...shape, file_bytes: null, tensors: null, memory: null, device: null, obstacle: told };
  }
  const { num_parameters, rope_theta, layers, file_bytes, tensors, obstacle, device = null } = told;
  const shape = { num_parameters, rope_theta, layers };
  return { ...shape, file_bytes, tensors, memory: memoryOf(told, batch), device, obstacle };
}

function memoryOf(told: RunnerInspection, batch: number): Inspection['memory'] {
  const { max_model_len, memory_bytes } = told;
  if (max_model_len === undefined || memory_bytes === undefined) return null;
  return {
    context: max_model_len,
    batch,
    process_bytes: told.process_bytes ?? 0,
    weights_bytes: told.weights_bytes ?? 0,
    kv_cache_bytes: told.kv_cache_bytes ?? 0,
    rows_bytes: told.rows_bytes ?? 0,
    attention_bytes: told.attention_bytes ?? 0,
    logits_bytes: told.logits_bytes ?? 0,
    requests_bytes: told.requests_bytes ?? 0,
    total_bytes: memory_bytes,
    available_bytes: told.available_bytes ?? null,
  };
}

function textOf(inspection: Inspection): string {
  const { architecture, num_parameters, tokenizer, context_length, memory } = inspection;
  const row = (name: string, text: string): string => `${name.padEnd(14)}${text}`;
  const parameters =
    num_parameters === null ? '' : `, ${(num_parameters / 1e6).toFixed(1)} million parameters`;
  const pre = tokenizer.pre === null ? '' : `, pre-tokenizer ${tokenizer.pre}`;
  return [
    row('model', `${inspection.model} (${inspection.path})`),
    row('architecture', `${architecture}${parameters}`),
    ...tensorTexts(inspection).map((text) => row('tensors', text)),
    row('context', `${context_length} tokens`),
    ...layerRows(inspection).map(([name, text]) => row(name, text)),
    row('tokenizer', `${tokenizer.kind}${pre}, ${tokenizer.vocab_size} tokens`),
    row('chat template', templateText(inspection.chat_template)),
    ...(memory === null ? [] : memoryRows(memory).map(([name, text]) => row(name, text))),
    row('runs here', runsText(inspection)),
  ].join('\n');
}

/** Rows about properties in which models differ. Empty if there is no information from a runner. */
function layerRows({ layers, rope_theta }: Inspection): [string, string][] {
  if (layers === null) return [];
  const { positions, sliding_window, experts, norm, has_head_norms, has_output_norms } = layers;
  const places = [
    ...(has_head_norms ? ['of queries and keys'] : []),
    ...(has_output_norms ? ['of outputs'] : []),
  ];
  const norms = norm === 'rms' ? 'root mean square' : 'layer norm';
  const rotary = `rotary, theta ${rope_theta}${scalingText(layers.rope_scaling)}`;
  return [
    ['positions', positions === 'learned' ? 'learned' : rotary],
    ...(sliding_window === null ? [] : [['window', windowText(sliding_window)] as [string, string]]),
    ['norms', [norms, ...places.map((place) => `also ${place}`)].join(', ')],
    ...(experts === null
      ? []
      : [
          ['experts', `${experts.count} of width ${experts.ffn_size}, ${experts.used} for a token`] as [
            string,
            string,
          ],
        ]),
  ];
}

function scalingText(scaling: NonNullable<Inspection['layers']>['rope_scaling']): string {
  if (scaling === null) return '';
  if (scaling.type === 'linear') return `, scaled by linear ${scaling.factor}`;
  if (scaling.type === 'llama3') return ', scaled by llama3';
  return `, scaled by ${scaling.type} from ${scaling.original_context_length} tokens on`;
}

function windowText(window: NonNullable<NonNullable<Inspection['layers']>['sliding_window']>): string {
  const { positions, global_every } = window;
  const layers = global_every === undefined ? 'every layer' : `all layers except every ${global_every}th`;
  const theta = window.rope_theta === undefined ? '' : `, theta ${window.rope_theta} there`;
  return `${positions} tokens in ${layers}${theta}`;
}

function tensorTexts({ tensors }: Inspection): string[] {
  return Object.entries(tensors ?? {}).map(
    ([type, { tensors: count, bytes }]) => `${count} of ${type}, ${megabytes(bytes)}`,
  );
}

function templateText(facts: TemplateFacts | null): string {
  if (facts === null) return 'none: chats are refused';
  if (facts.fault !== null) return facts.fault;
  return facts.features.join(', ').replaceAll('_', ' ') || 'uses only the messages';
}

/** The plan line by line, then the sum. */
function memoryRows(memory: NonNullable<Inspection['memory']>): [string, string][] {
  const { context, batch, process_bytes, total_bytes, available_bytes } = memory;
  const { rows_bytes, attention_bytes, logits_bytes } = memory;
  const requests = batch === 1 ? 'one request' : `${batch} requests`;
  const usable = (available_bytes ?? 0) + process_bytes;
  const fit = total_bytes <= usable ? 'fits into' : 'does not fit into';
  const there = available_bytes === null ? '' : `; ${fit} the ${megabytes(usable)} that it may use`;
  return [
    ['- process', megabytes(process_bytes)],
    ['- weights', megabytes(memory.weights_bytes)],
    ['- KV cache', `${megabytes(memory.kv_cache_bytes)} for ${requests} of ${context} tokens`],
    [
      '- a step',
      `${megabytes(rows_bytes + attention_bytes + logits_bytes)}: rows ${megabytes(rows_bytes)}, attention ${megabytes(attention_bytes)}, logits ${megabytes(logits_bytes)}`,
    ],
    ['- requests', megabytes(memory.requests_bytes)],
    ['memory', `${megabytes(total_bytes)}${there}`],
  ];
}

function runsText({ obstacle, backend, device }: Inspection): string {
  if (obstacle !== null) return `no: ${obstacle}`;
  return `yes, by ${backend}-runner on ${device}`;
}
