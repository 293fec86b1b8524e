import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceParams } from './workspace-params.ts'
import { startedOrStopped } from './workspace-state-fields.ts'

export default defineTool({
  name: 'workspace_stop',
  toolset: 'workspaces',
  title: 'Stop a workspace',
  description:
    'Stop a running workspace: its processes are asked to end, then ended; its files stay. Start it again with workspace_start, or remove it for good with workspace_destroy.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  whenDiskFull: true,
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
  }),
  output: startedOrStopped,
  run: (input, { workspaces, call }) => workspaces.stop(call, input),
})
