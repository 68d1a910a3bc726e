import { poolings } from '../runner/runner.ts';
import { LOG_LEVELS } from '../telemetry/log.ts';
import {
  baseUrl,
  baseUrlOr,
  bytes,
  decimal,
  hostName,
  hostNames,
  httpUrl,
  matching,
  modelNames,
  models,
  oneOf,
  onOff,
  origins,
  seconds,
  socketPath,
  text,
  whole,
} from './kinds.ts';
import { MODEL_MISSING, RUNNER_LIMITS, runnerSettings } from './runner-settings.ts';
import { inGroup } from './setting.ts';

/**
 * Who shares cached prompts with whom. A prompt that is found in the cache is answered sooner, so with sharing among keys, the
 * holder of one key could find out what others ask.
 */
const CACHE_SHARINGS = ['per-key', 'all'] as const;
export type CacheSharing = (typeof CACHE_SHARINGS)[number];

const AUDIT_POLICIES = ['report', 'retire'] as const;

/** The value of --otlp-endpoint with which no traces are exported. */
export const NO_TRACES = 'off';

/** The settings of `runnel serve`. config.ts reads them. */
export const serveSettings = {
  ...runnerSettings,
  ...inGroup('Devices', {
    runners: whole(1, RUNNER_LIMITS.runners)
      .or(1)
      .help(
        'Runners of the model, all on the CPU or all on the CUDA device; without --threads those on the CPU share the cores',
      ),
  }),
  ...inGroup('Model', {
    model: models(MODEL_MISSING)
      .with({ unless: 'models-dir' })
      .help(
        'GGUF file, Hugging Face folder, or name of a pulled model; NAME=MODEL serves it under another name; repeat it for several models',
      ),
    'served-model-name': modelNames()
      .or([], "its file's name")
      .help('Names by which clients of /v1 may call the model'),
    pooling: oneOf(poolings)
      .optional("as the model's file says, else last, or mean for encoders")
      .help("How embeddings are pooled from the tokens' vectors"),
  }),
  ...inGroup('Several models', {
    'models-dir': text('FOLDER')
      .optional()
      .help('Serve each GGUF file and each Hugging Face folder in this folder under its name'),
    'pinned-models': modelNames().or([]).help('Models that are loaded at the start and never unloaded'),
    'memory-budget-bytes': bytes(1, 2 ** 50)
      .optional('what is free at the start')
      .help('Maximum memory of all loaded models together'),
    'model-keep-alive-sec': seconds(0, 31_536_000)
      .or(300)
      .help('Unload a model after this time without a request; 0: only when another model needs its memory'),
    'time-slice': seconds(1, 86_400)
      .optional('until its requests are done')
      .help(
        'How long a model in use serves on while another one waits for its memory; its durable jobs then wait for its next turn',
      ),
    'client-unload': onOff()
      .or('off')
      .help('Obey keep_alive 0 of requests: the model is unloaded once nobody uses it'),
  }),
  ...inGroup('Scheduling', {
    'park-by-priority': onOff()
      .or('off')
      .help(
        'Park a running request for a more urgent one of the same key, by their priority, when the runner has no place or memory for both; off: priorities order only what waits',
      ),
  }),
  ...inGroup('KV cache', {
    'kv-disk': text('FILE')
      .optional()
      .help(
        'Keep what was computed on the CPU in this file too, encrypted, so that prompts with a known beginning are found after a restart and beyond the size of the KV cache; needs --kv-disk-bytes',
      ),
    'kv-disk-bytes': bytes(2 ** 26, 2 ** 46)
      .optional()
      .help('Size of the file, all of which is taken on the disk when it is made'),
  }),
  ...inGroup('Pool manager', {
    'worker-id': matching(
      /^[A-Za-z0-9._-]{1,128}$/,
      '1 to 128 letters, digits, dots, underscores and hyphens',
      'ID',
    )
      .optional('random at each start')
      .help('Name of this worker, also in the log'),
    'callback-url': httpUrl()
      .optional()
      .help(
        'Send one POST to this URL when the model is ready, and end if the POST fails or the model cannot be loaded; localhost:9999: no POST',
      ),
    'advertise-url': baseUrl()
      .optional('the address it listens on')
      .help('URL at which the pool manager reaches this worker'),
  }),
  ...inGroup('Server', {
    host: hostName()
      .or('127.0.0.1')
      .help('Address to listen on; an address that is not loopback needs --api-keys-file'),
    port: whole(0, 65_535, 'PORT').or(8080).help('Port to listen on; 0: the system chooses one'),
    uds: socketPath().optional().help('UNIX socket to listen on, in place of --host and --port'),
    playground: oneOf(['on', 'off', 'dev'])
      .or('on')
      .help('Web page at /; dev: with a button that kills the runner, only on a loopback address'),
  }),
  ...inGroup('Security', {
    'api-keys-file': text('FILE')
      .optional('no key is needed')
      .help('Keys that clients must send, one per line; read again at SIGHUP'),
    'admin-keys-file': text('FILE')
      .optional()
      .help('Keys of operators, which also open /runner and /metrics; needs --api-keys-file'),
    'prefix-cache-sharing': oneOf(CACHE_SHARINGS)
      .or('per-key')
      .help(
        'Which requests may reuse a computed prompt; per-key: those with the same key; all: every one, which is faster, but the time of an answer can tell what others asked',
      ),
    'allowed-hosts': hostNames()
      .or([])
      .help(
        'Host names that requests may use for this server, besides localhost and the address it listens on',
      ),
    'cors-origins': origins()
      .or([], 'those of this machine and of apps')
      .help('Origins of web pages that may send requests'),
  }),
  ...inGroup('Limits', {
    'max-open-requests': whole(1, RUNNER_LIMITS.requests)
      .or(256)
      .help('Maximum open requests; one more gets 429'),
    'max-queued-tokens': whole(1, RUNNER_LIMITS.promptTokens)
      .or(2 ** 18)
      .help('Maximum prompt tokens of all open requests together; one more request gets 429'),
    'max-tokens-in': whole(1, RUNNER_LIMITS.maxModelLen)
      .optional('what --max-model-len leaves')
      .help('Maximum tokens of a prompt; a longer one gets 400'),
    'max-tokens-out': whole(1, RUNNER_LIMITS.maxModelLen)
      .optional('what --max-model-len leaves')
      .help('Maximum tokens of an answer, whatever its request asks for'),
    'max-body-bytes': bytes(1024, 2 ** 30)
      .or(2 ** 20)
      .help('Maximum size of a request body'),
    'max-body-bytes-in-flight': bytes(1024, 2 ** 36)
      .or(2 ** 26)
      .help(
        'Maximum size of the bodies of all requests that are not yet answered; one more request gets 503',
      ),
    'max-answer-bytes-in-flight': bytes(4096, 2 ** 36)
      .or(2 ** 26)
      .help(
        'Maximum size of the embeddings and long answers of /tokenize and /detokenize that clients have not yet read; one more request gets 503',
      ),
    'max-connections': whole(1, 2 ** 20)
      .or(1024)
      .help('Maximum open connections; one more is closed'),
    'max-requests-per-connection': whole(1, 2 ** 31 - 1)
      .or(1000)
      .help('Close a connection after this many requests'),
    'max-headers': whole(16, 2000)
      .or(64)
      .help('Maximum header lines of a request; a request with more is refused'),
  }),
  ...inGroup('Timeouts', {
    'inference-timeout-sec': seconds(1, 86_400)
      .or(300)
      .help('End a request that is not finished in this time'),
    'headers-timeout-sec': seconds(1, 3600)
      .or(10)
      .help('Time in which a client must send the header of a request'),
    'request-timeout-sec': seconds(1, 3600)
      .or(30)
      .help('Time in which a client must send a whole request; the time for the answer does not count'),
    'client-stall-timeout-sec': seconds(2, 3600)
      .or(30)
      .help('Cancel the request of a client that reads nothing of a waiting answer for this time'),
    'keep-alive-timeout-sec': seconds(1, 3600)
      .or(5)
      .help('Close a connection that has no request for this time'),
    'timeouts-check-interval-sec': seconds(1, 60)
      .or(1)
      .help('Interval at which the timeouts for headers and requests are checked'),
    'drain-timeout-sec': seconds(0, 3600).or(30).help('Time in which open requests may finish after SIGTERM'),
  }),
  ...inGroup('Reliability', {
    'wedge-timeout-sec': seconds(0, 3600)
      .or(10)
      .help(
        'A busy runner without a step for this time counts as hung, or for longer if its steps are slow; 0: never',
      ),
    'journal-dir': text('FOLDER|off')
      .optional('journal in the state folder')
      .help(
        'Keep durable jobs in this folder: they survive lost connections and the end of the gateway; off: refuse them',
      ),
    'journal-max-jobs': whole(1, 1_000_000)
      .or(1024)
      .help('Maximum durable jobs kept at once; one more has ended jobs forgotten, or gets 503'),
    'journal-max-bytes': bytes(2 ** 20, 2 ** 40)
      .or(2 ** 26)
      .help(
        'Maximum size that the kept jobs take or may grow to; above it ended jobs are forgotten, or one more gets 503',
      ),
    'journal-keep-sec': seconds(1, 31_536_000)
      .or(3600)
      .help('Keep a job for this time after its end; a job that takes longer than this ends with an error'),
    'audit-share': decimal(0, 1, 'SHARE')
      .or(0)
      .help(
        'Compute this share of the answers again on the CPU, by a runner of its own, and report those that differ',
      ),
    'audit-policy': oneOf(AUDIT_POLICIES)
      .or('report')
      .help(
        'What follows an answer that differs; retire: the CUDA device is no longer used, and the CPU goes on',
      ),
    receipts: onOff()
      .or('off')
      .help(
        'Give every answer a receipt, by which runnel verify computes it again; off: those whose requests ask for one',
      ),
  }),
  ...inGroup('Batches', {
    'max-file-bytes': bytes(1024, 2 ** 34)
      .or(209_715_200)
      .help('Maximum size of a file that a client sends'),
    'files-max-bytes': bytes(2 ** 20, 2 ** 44)
      .or(2 ** 32)
      .help(
        'Maximum size of all files and results of batches together; one more file gets 503, and batches wait until files are deleted',
      ),
    'batch-open-lines': whole(1, RUNNER_LIMITS.requests)
      .or(32)
      .help('Maximum lines of batches that a model answers at once'),
  }),
  ...inGroup('Logging and debugging', {
    'crash-reports-dir': text('FOLDER')
      .optional()
      .help('Write reports of runners that died, and their recordings, to this folder'),
    'otlp-endpoint': baseUrlOr(NO_TRACES)
      .or(NO_TRACES)
      .help(
        'Send a trace of each request to the OpenTelemetry collector at this URL, by OTLP over HTTP: to /v1/traces below it',
      ),
    'log-level': oneOf(LOG_LEVELS).or('info').help('Lowest level of log lines that are written'),
  }),
};
