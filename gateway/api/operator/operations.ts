import * as z from 'zod';
import { json, type Operation } from '../../server/operation.ts';
import {
  crashesSchema,
  healthSchema,
  killedSchema,
  readySchema,
  restartedSchema,
  restartingSchema,
} from './answers.ts';
import { killSchema, restartSchema } from './runner.ts';

export const probeOperations: readonly Operation[] = [
  {
    method: 'get',
    path: '/health',
    summary: 'The worker’s health',
    answers: { 200: json('Always, while the gateway runs.', healthSchema) },
  },
  {
    method: 'get',
    path: '/ready',
    summary: 'Whether the worker takes requests',
    answers: {
      200: json('The worker takes requests. Otherwise the answer is a 503 with the reason.', readySchema),
    },
  },
];

export const operatorOperations: readonly Operation[] = [
  {
    method: 'get',
    path: '/metrics',
    summary: 'Numbers for Prometheus',
    answers: {
      200: { description: 'Prometheus’ text format.', content: { 'text/plain': { whole: z.string() } } },
    },
  },
  {
    method: 'get',
    path: '/runner/crashes',
    summary: 'The last runners that crashed or exited unexpectedly',
    answers: { 200: json('crashes, the newest first.', crashesSchema) },
  },
  {
    method: 'post',
    path: '/runner/restart',
    summary: 'A new runner in place of the old one',
    body: restartSchema,
    isBodyOptional: true,
    answers: {
      200: json('The new runner is ready (with wait).', restartedSchema),
      202: json('The restart has begun.', restartingSchema),
    },
  },
  {
    method: 'post',
    path: '/runner/kill',
    summary: 'Ends the process of a runner by SIGKILL; only with --playground dev',
    body: killSchema,
    answers: { 200: json('It was killed.', killedSchema) },
  },
];
