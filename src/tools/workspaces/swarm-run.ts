import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { swarmFields, swarmStrategies } from './swarm-fields.ts'
import { workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'swarm_run',
  toolset: 'workspaces',
  trust: { reads: 'workspace', sends: 'open-network' },
  title: 'Run tasks in forks',
  description:
    'Fork a worker for each task from a snapshot, run the commands in parallel, and wait for all. With merge_strategy, what successful tasks committed in /workspace is merged; then the workers are destroyed, but for those with commits that were not merged or changes that were not committed. Use cleanup=false to keep all. Make the snapshot with workspace_prepare.',
  permission: 'workspace:create',
  alsoNeeds: ['workspace:exec'],
  tier: 'user',
  effect: 'external',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  long: true,
  governed: { opaque: 'commands' },
  input: z.strictObject({
    golden_workspace: workspaceParams.workspaceId.describe('Id or name of the workspace to fork from.'),
    snapshot_name: workspaceParams.name.describe('Name or id of its snapshot to begin with, such as "golden".'),
    tasks: z
      .array(
        z.strictObject({
          name: z.string().min(1).max(128).describe('Its name in the results; each has its own.'),
          command: workspaceParams.command,
          workdir: workspaceParams.workdir.optional().describe('Directory to run in; /workspace when left out.'),
          env: workspaceParams.env.optional().describe('Variables for this task; they win over env_vars.'),
        }),
      )
      .min(1)
      .max(limits.workspaceBatchMax)
      .describe('What to do, each in a worker of its own.'),
    env_vars: workspaceParams.env.optional().describe('Variables for all workers.'),
    shared_context: z
      .string()
      .max(limits.swarmContextCharsMax)
      .optional()
      .describe('Text that every worker finds in the file that its variable SHARED_CONTEXT names.'),
    merge_strategy: z
      .enum(swarmStrategies)
      .optional()
      .describe('Replay commits; merge a branch for each task; or replay and note their origin. Left out: no merge.'),
    merge_target: workspaceParams.workspaceId
      .optional()
      .describe('Workspace to merge into, running and without uncommitted changes; golden_workspace when left out.'),
    max_parallel: z
      .int()
      .min(1)
      .max(limits.workspaceBatchMax)
      .default(limits.swarmParallelDefault)
      .describe('Tasks at work at once.'),
    timeout_secs: workspaceParams
      .timeoutSecs(limits.swarmTimeoutDefaultSecs)
      .describe('Seconds that each command may run; waiting does not count.'),
    cleanup: z
      .boolean()
      .default(true)
      .describe(
        'Whether the workers are destroyed at the end. With merge_strategy, one stays that has something which was not merged; without it, all that is not in the output is gone.',
      ),
    allow_internet: z
      .boolean()
      .optional()
      .describe('Whether workers may reach the internet; as the golden workspace when left out.'),
  }),
  output: z.strictObject({
    swarm_id: z.string(),
    golden_workspace_id: z.string(),
    snapshot_name: z.string(),
    tasks: z.array(swarmFields.task).describe('In the order of the call.'),
    merge: swarmFields.merge.nullable().describe('Null without merge_strategy.'),
    workers: z
      .array(
        z.strictObject({
          workspace_id: z.string(),
          name: z.string(),
          unmerged: z.boolean().describe('Whether it was kept because something of it was not merged.'),
          error: swarmFields.failure.nullable().describe('Why it could not be destroyed.'),
        }),
      )
      .describe('The workers that are still there.'),
    summary: z.strictObject({
      total_tasks: z.int(),
      succeeded: z.int(),
      failed: z.int(),
      timed_out: z.int(),
      total_elapsed_ms: z.int(),
      workers_destroyed: z.int(),
    }),
  }),
  run: (input, { swarms, call }) => swarms.run(call, input),
})
