import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { zaruModes } from '../runtime/zaru-modes.ts'

export default defineTool({
  name: 'zaru.switch_mode',
  toolset: 'modes',
  title: 'Suggest another mode',
  description:
    'Suggest that the user switch to a different conversation mode, when what they ask for cannot be done in the present one. The client shows it as a card that the user accepts, refuses or dismisses: nothing changes by the call itself.',
  permission: null,
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  transports: ['http'],
  input: z.strictObject({
    target_mode: z.enum(zaruModes).describe('The mode to switch to.'),
    reason: z.string().min(1).max(1_024).describe('Why, for the user, in one plain sentence.'),
  }),
  output: z.strictObject({
    action: z.literal('mode_switch_requested'),
    target_mode: z.enum(zaruModes),
    reason: z.string(),
  }),
  run: ({ target_mode, reason }) => ({ action: 'mode_switch_requested' as const, target_mode, reason }),
})
