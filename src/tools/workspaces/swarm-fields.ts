import { z } from 'zod'
import { workspaceFields } from './workspace-params.ts'

export const swarmStrategies = ['sequential', 'branch-per-source', 'cherry-pick'] as const

const failure = z.strictObject({ code: z.string(), message: z.string() })
const { exit_code: _, duration_ms: __, ...outcome } = workspaceFields.outcome

export const swarmFields = {
  failure,
  task: z.strictObject({
    name: z.string(),
    workspace_id: z.string().nullable().describe('Null when no worker could be forked.'),
    workspace_name: z.string().nullable(),
    success: z.boolean().describe('Whether it ended in time with the exit code 0.'),
    exit_code: z
      .int()
      .nullable()
      .describe('128 and the number of the signal when one ended it; null when it did not run.'),
    ...outcome,
    queued_ms: z.int().describe('From the call until it was its turn.'),
    fork_ms: z.int().describe('Until its worker was up.'),
    elapsed_ms: z.int().describe('How long the command ran; this is what timeout_secs bounds.'),
    error: failure.nullable().describe('Why it did not run to an end.'),
  }),
  merge: z.strictObject({
    strategy: z.enum(swarmStrategies),
    target_workspace_id: z.string(),
    target_workspace_name: z.string(),
    success: z.boolean().describe('Whether every successful task was merged.'),
    total_commits_applied: z.int(),
    merged_tasks: z.array(z.string()),
    head_before: z.string().nullable(),
    head_after: z.string().nullable(),
    results: z.array(
      z.strictObject({
        task: z.string(),
        source_id: z.string(),
        source_name: z.string(),
        success: z.boolean(),
        commits_applied: z.int(),
        commits: z.array(z.string()).describe('Their ids in the target, oldest first; of very many, the newest.'),
        conflict_files: z.array(z.string()).describe('Files in conflict, or in the way.'),
        fork_point: z.string().optional().describe('The last commit that both had.'),
        branch: z.string().optional(),
        merge_commit: z.string().optional(),
        failed_commit: z.string().optional().describe('The commit of the task that did not fit.'),
        error: z.string().optional(),
        git_output: z.string().optional().describe('What git said, without secrets.'),
        warning: z.string().optional(),
      }),
    ),
    error: failure.nullable().describe('Why nothing was merged at all.'),
  }),
} as const
