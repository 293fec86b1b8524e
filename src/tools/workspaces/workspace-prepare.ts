import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'workspace_prepare',
  toolset: 'workspaces',
  title: 'Prepare a workspace for forking',
  description:
    'Make a workspace to fork from: clone a repository to /workspace, run setup commands there, and keep the state as the snapshot "golden". Called again with the same name it answers at once with what is there. If a command fails, a workspace made for this call is gone again. Use it before swarm_run or workspace_fork.',
  permission: 'workspace:create',
  alsoNeeds: ['workspace:exec'],
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'create',
  skipJudge: false,
  trust: { reads: 'workspace', sends: 'open-network' },
  long: true,
  governed: { opaque: 'commands' },
  input: z.strictObject({
    name: workspaceParams.name.describe('Its name; one of yours that has no such snapshot yet is used.'),
    base_image: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .describe('Image to start from; the configured one when left out.'),
    git_url: z
      .string()
      .min(1)
      .max(2048)
      .optional()
      .describe('Repository to clone: https://, http://, git:// or ssh://, or user@host:path.'),
    setup_commands: z
      .array(workspaceParams.command)
      .max(limits.prepareCommandsMax)
      .optional()
      .describe('Shell commands, run in order in /workspace; the first that fails ends the call.'),
    env: workspaceParams.env.optional().describe('Variables for the setup commands; they are not kept.'),
    timeout_secs: workspaceParams
      .timeoutSecs(limits.prepareTimeoutDefaultSecs)
      .describe('Seconds that each setup command has.'),
    allow_internet: z
      .boolean()
      .optional()
      .describe(
        'Whether it may reach the internet, now and later. Left out: a new workspace may while it is prepared, if there is something to clone, and has the configured default afterwards.',
      ),
    allowed_domains: workspaceParams.allowedDomains
      .optional()
      .describe('Hosts for HTTP and HTTPS without the rest of the internet, now and later, such as *.npmjs.org.'),
  }),
  output: z.strictObject({
    workspace_id: z.string(),
    name: z.string(),
    state: workspaceFields.state,
    ip: workspaceFields.ip,
    base_image: z.string(),
    snapshot_name: z.string().describe('Always "golden".'),
    snapshot_id: z.string(),
    reused_existing: z.boolean().describe('Whether the workspace was there before this call.'),
    repository: z
      .strictObject({
        url: z.string().describe('Without credentials.'),
        branch: z.string().nullable(),
        commit_sha: z.string().nullable(),
      })
      .nullable()
      .describe('What this call cloned; null when it cloned nothing.'),
    commands: z
      .array(z.strictObject({ command: z.string(), exit_code: z.int(), duration_ms: z.int() }))
      .describe('What this call ran; empty when all was prepared before.'),
  }),
  run: (input, { swarms, call }) => swarms.prepare(call, input),
})
