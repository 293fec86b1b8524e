import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'snapshot',
  toolset: 'workspaces',
  title: 'Manage snapshots',
  description:
    'Keep the present files of a workspace under a name (create), go back to them (restore, which restarts the workspace and removes newer snapshots), list them as a tree, or delete one. Make new workspaces from one with workspace_fork.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'default',
  actions: { list: { permission: 'workspace:read', effect: 'read' }, delete: { whenDiskFull: true } },
  skipJudge: false,
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    action: z.enum(['create', 'restore', 'list', 'delete']),
    name: workspaceParams.name
      .optional()
      .describe('Name of the snapshot, or its id where there is one; for all actions but list.'),
    include_memory: z.boolean().optional().describe('For create: also keep running processes, where the machine can.'),
  }),
  output: z.strictObject({
    action: z.enum(['create', 'restore', 'list', 'delete']),
    workspace_id: z.string(),
    snapshot_id: z.string().optional(),
    name: z.string().optional(),
    has_memory: z.boolean().optional(),
    bytes: z.int().optional().describe('Disk space of its own.'),
    created_at: fields.time.optional(),
    state: workspaceFields.state.optional(),
    removed_snapshots: z.array(z.string()).optional().describe('Newer ones that restore removed.'),
    dependents: z
      .array(z.strictObject({ workspace_id: z.string(), name: z.string() }))
      .optional()
      .describe('Workspaces forked from the deleted one; they keep what they need.'),
    dependent_count: z.int().optional().describe('Also those that you cannot see.'),
    snapshots: z.array(workspaceFields.snapshot).optional(),
    message: workspaceFields.message.optional(),
  }),
  run: (input, { workspaces, call }) => workspaces.snapshot(call, input),
})
