import { z } from 'zod'
import { intentLanguages } from '../../contract/intent-languages.ts'
import { limits } from '../../contract/limits.ts'

export const intentParams = {
  request: z.string().min(1).max(limits.intentCharsMax),
  inputs: z
    .record(z.string().max(256), z.unknown())
    .optional()
    .describe('Data for the program; it finds them as JSON in INTENT_INPUTS.'),
  volume: z
    .string()
    .min(1)
    .max(128)
    .optional()
    .describe('Name or id of a workspace of yours to run in, without a network; a fresh one when left out.'),
  language: z.enum(intentLanguages).default('python').describe('Language of the program.'),
  timeout: z.int().min(1).max(limits.execTimeoutSecsMax).optional().describe('Seconds for one run; 600 if left out.'),
  tenant: z.string().min(1).max(128).optional().describe('Your own tenant, or left out.'),
} as const

export const intentStarted = z.strictObject({
  pipeline_execution_id: z.string(),
  status: z.literal('started'),
  stream_url: z.string().describe('Server-sent events of the run; a path of the HTTP server on other transports.'),
})

/** Shared by both spellings of the tool. */
export const intentRules = {
  toolset: 'intents',
  permission: 'agent:execute',
  alsoNeeds: ['workspace:create', 'workspace:exec'],
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'exec',
  skipJudge: false,
  begins: { field: 'pipeline_execution_id', waitTool: 'aegis.execute.wait' },
  arguments: 'aegis',
} as const
