import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'workspace_resize',
  toolset: 'workspaces',
  title: 'Resize a workspace',
  description:
    'Give a workspace more or fewer processors, other memory or a disk of another size, for example after exec said that a limit stopped something. What is left out stays as it is. It takes effect at once, without a restart; only less memory needs a stopped workspace, and less disk must hold what is on it.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    vcpus: z.int().min(1).max(1024).optional().describe('Processors.'),
    memory_mb: z.int().min(16).max(16_777_216).optional().describe('Memory in MiB.'),
    disk_gb: z
      .int()
      .min(1)
      .max(1_048_576)
      .optional()
      .describe('Disk in GiB; only where the machine enforces the size of disks, as workspace_info says.'),
  }),
  output: z.strictObject({
    workspace_id: z.string(),
    name: z.string(),
    state: workspaceFields.state,
    resources: workspaceFields.resources,
  }),
  run: (input, { workspaces, call }) => workspaces.resize(call, input),
})
