import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { interactionFields } from './interaction-fields.ts'

export default defineTool({
  name: 'interaction_get',
  toolset: 'interactions',
  title: 'Show a request to a language model',
  description:
    'Show one request to a language model with everything that is known of it: who asked and how they signed in, what policies and limits said, and the bodies if the operator keeps them. Use interaction_list to find its id.',
  permission: 'llmProxy:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { source: 'untrusted' },
  input: z.strictObject({ id: z.string().min(1).max(64).describe('Id of the interaction.') }),
  output: z.strictObject({ interaction: interactionFields.details }),
  run: (input, { interactions, call }) => interactions.get(call, input),
})
