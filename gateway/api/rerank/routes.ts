import { json, type Operation } from '../../server/route-group.ts';
import { post } from '../route.ts';
import { ranking, rankingSchema, rerankBody } from './rerank.ts';
import { scoreBody, scoresSchema, scoring } from './score.ts';

export const RERANK_PATH = '/v1/rerank';
const SCORE_PATH = '/v1/score';

export const rerankPaths: readonly string[] = [RERANK_PATH, SCORE_PATH];

export const rerankOperations: readonly Operation[] = [
  post(
    RERANK_PATH,
    'Documents in the order of their relevance',
    ranking,
    rerankBody,
    json('A ranking.', rankingSchema),
  ),
  post(SCORE_PATH, 'Scores of pairs of texts', scoring, scoreBody, json('A list of scores.', scoresSchema)),
];
