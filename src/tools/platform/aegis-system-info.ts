import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'aegis.system.info',
  toolset: 'platform',
  title: 'Describe the system',
  description:
    'Tell the version, whether the server is healthy, and what it can do. Use server_health for the details of what is wrong.',
  permission: 'system:read',
  tier: 'operator',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject({}),
  output: z.strictObject({
    version: z.string(),
    status: z.enum(['healthy', 'unhealthy']),
    capabilities: z.array(z.string()),
  }),
  run: (_input, { platform }) => platform.info(),
})
