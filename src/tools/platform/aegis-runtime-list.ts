import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'aegis.runtime.list',
  toolset: 'platform',
  title: 'List runtimes',
  description:
    'List the languages and versions that an agent manifest may name in spec.runtime, with the image each stands for and whether it can be run here. Use it before you write a manifest.',
  permission: 'server:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject({ language: z.string().max(64).optional().describe('Only this language, such as python.') }),
  output: z.strictObject({
    tool: z.literal('aegis.runtime.list'),
    runtimes: z.array(
      z.strictObject({
        language: z.string(),
        version: z.string(),
        image: z.string(),
        description: z.string(),
        deprecated: z.boolean(),
        available: z.boolean(),
        resolved_image: z.string().nullable(),
        reason: z.string().nullable(),
      }),
    ),
    custom_runtime_supported: z.boolean(),
  }),
  run: (input, { platform }) => platform.listRuntimes(input),
})
