import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'aegis.system.config',
  toolset: 'platform',
  title: 'Read the configuration',
  description:
    'Give the configuration in force as YAML, secrets left out, and the file that it was read from, empty if there is none.',
  permission: 'system:read',
  tier: 'operator',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject({}),
  output: z.strictObject({ config_path: z.string(), content_yaml: z.string() }),
  run: (_input, { platform, principal }) => platform.configuration(principal),
})
