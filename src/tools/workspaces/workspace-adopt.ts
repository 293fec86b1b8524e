import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

const adopted = z.strictObject({
  workspace_id: z.string(),
  name: z.string(),
  state: workspaceFields.state,
  ip: z.string(),
  forced: z.boolean(),
})

export default defineTool({
  name: 'workspace_adopt',
  toolset: 'workspaces',
  title: 'Adopt orphaned workspaces',
  description:
    'Become the owner of a workspace whose owner was revoked: a key that was revoked or has expired. For administrators, and for a key that has the same name and at least the same rights. Without workspace_id, of all such workspaces, as far as your quota allows. See workspace_list.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId
      .optional()
      .describe('Workspace id or name; all orphaned ones when left out.'),
    force: z.boolean().optional().describe('For administrators: also from an owner who is still active.'),
  }),
  output: z.strictObject({
    workspace_id: z.string().optional(),
    name: z.string().optional(),
    state: workspaceFields.state.optional(),
    ip: workspaceFields.ip.optional(),
    forced: z.boolean().optional(),
    adopted: z.union([z.literal(true), z.array(adopted)]).describe('True for the one that was named, else the list.'),
    adopted_count: z.int(),
    error_count: z.int(),
    errors: z.array(z.strictObject({ workspace_id: z.string(), error: z.string() })),
  }),
  run: (input, { workspaces, call }) => workspaces.adopt(call, input),
})
