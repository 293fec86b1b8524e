import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'aegis.schema.validate',
  toolset: 'platform',
  title: 'Validate a manifest',
  description:
    'Check an agent or workflow manifest without deploying it. All errors are listed, each with its field; warnings name what has no effect or an older spelling. Use aegis.schema.get for the format.',
  permission: 'server:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  fails: { kind: 'input', field: 'valid', is: false },
  arguments: 'aegis',
  input: z.strictObject({
    kind: z.enum(['agent', 'workflow']).describe('What the manifest describes.'),
    manifest_yaml: z.string().min(1).max(limits.manifestCharsMax).describe('The whole manifest, in YAML.'),
  }),
  output: z.strictObject({ valid: z.boolean(), errors: z.array(z.string()).nullable(), warnings: z.array(z.string()) }),
  run: (input, { platform, call }) => platform.validate(call, input),
})
