import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'workspace_fork',
  toolset: 'workspaces',
  trust: { reads: 'workspace', sends: 'opens-network' },
  title: 'Fork a workspace',
  description:
    'Make one or more new independent workspaces from a snapshot of a workspace, each with its files, resources, network policy and variables. With count, as many as possible are made and each failure is reported; when none can be made, the call fails. Take a snapshot first, with snapshot.',
  permission: 'workspace:create',
  tier: 'user',
  effect: 'external',
  harmless: true,
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  long: true,
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    snapshot_name: workspaceParams.name.describe(
      'Name or id of the snapshot to begin with. The tool snapshot takes one.',
    ),
    new_name: workspaceParams.name.optional().describe('Name of the one fork; made up when left out.'),
    count: z.int().min(1).max(limits.workspaceBatchMax).optional().describe('How many; 1 when left out.'),
    name_prefix: workspaceParams.name
      .optional()
      .describe(
        'Several are named prefix-1, prefix-2 and so on, without numbers that are taken; "worker" when left out.',
      ),
  }),
  output: z.strictObject({
    workspace_id: z.string().optional().describe('Of the one fork; several are in workers.'),
    name: z.string().optional(),
    state: workspaceFields.state.optional(),
    ip: workspaceFields.ip.optional(),
    forked_from: workspaceFields.lineage,
    source_workspace_id: z.string(),
    snapshot_name: z.string(),
    requested_count: z.int(),
    success_count: z.int(),
    failure_count: z.int(),
    workers: z.array(
      z.strictObject({ workspace_id: z.string(), name: z.string(), ip: z.string(), state: workspaceFields.state }),
    ),
    failures: z.array(z.strictObject({ index: z.int(), name: z.string(), error: z.string(), code: z.string() })),
  }),
  run: (input, { workspaces, call }) => workspaces.fork(call, input),
})
