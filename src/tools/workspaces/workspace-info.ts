import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

const limit = z.strictObject({ enforced: z.boolean(), reason: z.string() })

export default defineTool({
  name: 'workspace_info',
  toolset: 'workspaces',
  trust: { reads: 'workspace' },
  title: 'Describe a workspace',
  description:
    'Describe one workspace: state, address, resources and whether this machine enforces their limits, network policy, snapshots, background jobs, disk use, owner, and where it was forked from.',
  permission: 'workspace:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
  }),
  output: z.strictObject({
    ...workspaceFields.row,
    base_image: z.string(),
    created_by: z.string(),
    node: z.string().describe('Machine that holds it.'),
    mounts: z
      .array(z.strictObject({ host_path: z.string(), path: z.string(), mode: z.enum(['ro', 'rw']) }))
      .describe('Folders of the host that it sees; snapshots and forks do not have them.'),
    network: z.strictObject({
      ...workspaceFields.policy,
      port_forwards: z.array(workspaceFields.forward),
      refused_connections: workspaceFields.refused,
    }),
    env_names: z.array(z.string()).describe('Names of the variables that set_env keeps; values are not shown.'),
    snapshots: z.array(workspaceFields.snapshot),
    forked_from: workspaceFields.lineage.nullable(),
    disk_used_bytes: z.int().nullable(),
    disk_volsize_bytes: z.int().nullable().describe('Limit of the disk, where one is enforced.'),
    memory_used_bytes: z.int().nullable(),
    processes: z.int().nullable(),
    memory_kills: z.int().nullable().describe('Processes that the kernel ended for want of memory since the start.'),
    process_refusals: z.int().nullable().describe('Processes that could not begin, since the start.'),
    jobs: z.array(z.strictObject(workspaceFields.job)),
    limits: z
      .strictObject({
        isolation: limit,
        memory: limit,
        cpu: limit,
        processes: limit,
        user_limits: limit,
        disk: limit,
        network: limit,
      })
      .nullable()
      .describe('What was seen to be enforced on this machine; null when it cannot be asked.'),
  }),
  run: (input, { workspaces, call }) => workspaces.info(call, input),
})
