import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { intentParams, intentRules, intentStarted } from './intent-params.ts'

export default defineTool({
  ...intentRules,
  name: 'aegis.execute.intent',
  title: 'Carry out an intent',
  description:
    'Carry out a request in plain words: an agent is found or created, it writes a program, which is checked and run in a workspace without a network, and its output becomes the answer. Answers at once; wait with aegis.execute.wait, or check with aegis.execute.status. Use exec for a command that you know.',
  input: z.strictObject({
    intent: intentParams.request.describe('What to do, in plain words.'),
    inputs: intentParams.inputs,
    volume_id: intentParams.volume,
    language: intentParams.language,
    timeout_seconds: intentParams.timeout,
    tenant_id: intentParams.tenant,
  }),
  output: intentStarted,
  run: (input, { intents, call }) => intents.start(call, input),
})
