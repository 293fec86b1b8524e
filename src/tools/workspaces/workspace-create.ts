import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'workspace_create',
  toolset: 'workspaces',
  trust: { sends: 'opens-network' },
  title: 'Create a workspace',
  description:
    'Create and start an isolated workspace: a file system, processes and a network of its own, without internet access unless allowed. Run commands in it with exec, keep states with snapshot, copy it with workspace_fork, and remove it with workspace_destroy.',
  permission: 'workspace:create',
  tier: 'user',
  effect: 'external',
  harmless: true,
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  input: z.strictObject({
    name: workspaceParams.name
      .optional()
      .describe('Unique name of letters, digits, ".", "_" and "-"; made up when left out.'),
    base_image: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .describe('Image to start from; the configured one when left out.'),
    vcpus: z.int().min(1).max(1024).optional().describe('Processors; the configured default when left out.'),
    memory_mb: z
      .int()
      .min(16)
      .max(16_777_216)
      .optional()
      .describe('Memory in MiB; the configured default when left out.'),
    disk_gb: z.int().min(1).max(1_048_576).optional().describe('Disk in GiB; the configured default when left out.'),
    allow_internet: z
      .boolean()
      .optional()
      .describe('Whether it may reach the internet; the configured default when left out.'),
    allowed_domains: workspaceParams.allowedDomains
      .optional()
      .describe('Hosts for HTTP and HTTPS without the rest of the internet, such as example.org or *.example.org.'),
    mount: z
      .array(
        z.strictObject({
          host_path: z.string().min(1).max(1_024).describe('Folder of the host, in one that the operator allows.'),
          path: z.string().min(1).max(1_024).describe('Where the workspace sees it, such as /workspace/project.'),
          mode: z.enum(['ro', 'rw']).optional().describe('"rw" to write in it as well; "ro" when left out.'),
        }),
      )
      .max(limits.workspaceMountsMax)
      .optional()
      .describe(
        'Folders of the host to see inside, as workspaces.mounts allows. Snapshots and forks do not have them.',
      ),
  }),
  output: z.strictObject({
    workspace_id: z.string(),
    name: z.string(),
    state: workspaceFields.state,
    ip: workspaceFields.ip,
    boot_time_ms: z.int().describe('From the call to a workspace that can run commands.'),
    from_pool: z.boolean().describe('Whether it had been prepared before.'),
    base_image: z.string(),
    resources: workspaceFields.resources,
    created_at: fields.time,
  }),
  run: (input, { workspaces, call }) => workspaces.create(call, input),
})
