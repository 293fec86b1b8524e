import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'port_forward',
  toolset: 'workspaces',
  trust: { sends: true },
  title: 'Forward a port',
  description:
    'Make a TCP port of a workspace reachable on a port of this machine (add), or end that (remove); list shows all. Servers that listen on localhost alone are reached as well. A free host port is chosen when none is named.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'default',
  actions: { list: { permission: 'workspace:read', effect: 'read', unused: { guest_port: 1 } } },
  skipJudge: false,
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    action: z.enum(['add', 'remove', 'list']),
    guest_port: workspaceParams.port.describe('Port in the workspace. Leave it out for list.'),
    host_port: workspaceParams.port
      .optional()
      .describe('For add: port of this machine, of those that the configuration gives out.'),
  }),
  output: z.strictObject({
    workspace_id: z.string(),
    guest_port: z.int(),
    host_port: z.int().nullable(),
    port_forwards: z.array(workspaceFields.forward).describe('All of the workspace.'),
    message: workspaceFields.message,
  }),
  run: (input, { workspaces, call }) => workspaces.portForward(call, input),
})
