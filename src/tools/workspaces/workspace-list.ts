import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields } from './workspace-params.ts'

export default defineTool({
  name: 'workspace_list',
  toolset: 'workspaces',
  title: 'List workspaces',
  description:
    'List the workspaces that you can see: your own, with owned true, and those whose owner is gone, which workspace_adopt can take over. Administrators see all of their tenant.',
  permission: 'workspace:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    state_filter: z
      .enum(['creating', 'running', 'stopped', 'suspended', 'restoring', 'destroying', 'archived'])
      .optional()
      .describe('Only those in this state. Archived ones, of which only snapshots are left, are shown only so.'),
  }),
  output: z.strictObject({
    workspaces: z.array(z.strictObject(workspaceFields.row)),
    count: z.int(),
  }),
  run: (input, { workspaces, call }) => workspaces.list(call, input),
})
