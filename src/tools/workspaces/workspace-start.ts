import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceParams } from './workspace-params.ts'
import { startedOrStopped } from './workspace-state-fields.ts'

export default defineTool({
  name: 'workspace_start',
  toolset: 'workspaces',
  title: 'Start a workspace',
  description: 'Start a stopped workspace with its files as they were left. One that runs already stays as it is.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
  }),
  output: startedOrStopped,
  run: (input, { workspaces, call }) => workspaces.start(call, input),
})
