import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { intentParams, intentRules, intentStarted } from './intent-params.ts'

export default defineTool({
  ...intentRules,
  name: 'aegis.execute',
  title: 'Carry out a prompt',
  description:
    'The older spelling of aegis.execute.intent, with the intent as prompt. Use aegis.execute.intent instead.',
  input: z.strictObject({
    prompt: intentParams.request.describe('What to do, in plain words.'),
    inputs: intentParams.inputs,
    volume_id: intentParams.volume,
    language: intentParams.language,
    timeout_seconds: intentParams.timeout,
    tenant_id: intentParams.tenant,
  }),
  output: intentStarted,
  run: ({ prompt, ...input }, { intents, call }) => intents.start(call, { ...input, intent: prompt }),
})
