import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'workspace_destroy',
  toolset: 'workspaces',
  title: 'Destroy a workspace',
  description:
    'Stop a workspace and remove it for good, with its files and snapshots. Forks that were made from it stay whole. There is no way back; use workspace_stop to keep it, or keep_snapshots to fork it later.',
  permission: 'workspace:delete',
  tier: 'user',
  effect: 'external',
  whenDiskFull: true,
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    keep_snapshots: z
      .boolean()
      .optional()
      .describe(
        'Keeps its snapshots for workspace_fork: for seven days, as long as they are among the newest of your destroyed workspaces, and until their room is needed.',
      ),
  }),
  output: z.strictObject({
    workspace_id: z.string(),
    name: z.string(),
    destroyed: z.boolean(),
    snapshots_kept: z.array(z.string()).describe('Names of those that can be forked still.'),
    message: workspaceFields.message,
  }),
  run: (input, { workspaces, call }) => workspaces.destroy(call, input),
})
