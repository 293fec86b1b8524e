import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'workspace_destroy',
  toolset: 'workspaces',
  title: 'Destroy a workspace',
  description:
    'Stop a workspace and remove it for good, with its files and snapshots. Forks that were made from it stay whole. There is no way back; use workspace_stop to keep it.',
  permission: 'workspace:delete',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  audit: 'digest',
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
  }),
  output: z.strictObject({
    workspace_id: z.string(),
    name: z.string(),
    destroyed: z.boolean(),
    message: workspaceFields.message,
  }),
  run: (input, { workspaces, call }) => workspaces.destroy(call, input),
})
