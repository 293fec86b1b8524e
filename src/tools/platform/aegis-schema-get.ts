import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'aegis.schema.get',
  toolset: 'platform',
  title: 'Read a manifest schema',
  description:
    'Give the JSON Schema of agent or workflow manifests. Use aegis.schema.validate to check a manifest against it.',
  permission: 'server:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject({ key: z.enum(['agent/manifest/v1', 'workflow/manifest/v1']).describe('Which schema.') }),
  output: z.looseObject({}),
  run: (input, { platform }) => platform.getSchema(input),
})
