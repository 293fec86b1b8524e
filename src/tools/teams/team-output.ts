import { z } from 'zod'
import { fields, params } from '../params.ts'

const state = z.enum(['creating', 'ready', 'destroying'])
const parent = z.string().nullable().describe('The team that it is part of.')
const depth = z.int().describe('How many teams are above it.')

const member = z.strictObject({
  name: z.string(),
  role: z.string(),
  skills: z.array(z.string()).optional(),
  description: z.string().optional(),
  workspace_id: z.string().nullable(),
  workspace_name: z.string(),
  ip: z.string().describe('Members of a team reach each other under these addresses.'),
  workspace_state: z
    .enum([...params.workspaceState.options, 'gone'])
    .optional()
    .describe('"gone": the workspace was destroyed by itself.'),
  agent_status: z.enum(['idle', 'working', 'stopped', 'failed']).optional(),
  queued_tasks: z.int().optional(),
  running_tasks: z.int().optional(),
})

const row = {
  name: z.string(),
  state,
  member_count: z.int(),
  max_vms: z.int(),
  parent_team: parent,
  depth,
  owner: z.string(),
  created_at: fields.time,
}

/** The fields of all actions. Each action returns its own subset. */
export const teamOutput = z.strictObject({
  action: z.enum(['create', 'destroy', 'status', 'list', 'message', 'receive', 'adopt']),
  ...z.strictObject(row).partial().shape,
  member_workspace_ids: z.array(z.string()).optional().describe('create: in the order of the roles.'),
  members: z.array(member).optional(),
  orphaned: z.boolean().optional().describe('status: whether its owner was revoked.'),
  created_by: z.string().optional(),
  budget: z
    .strictObject({ max_vms: z.int(), used_vms: z.int(), free_vms: z.int() })
    .optional()
    .describe('status: members of the team and of all teams below it.'),
  sub_teams: z.array(z.string()).optional().describe('status: those right below it.'),
  success: z.boolean().optional(),
  destroyed_teams: z.array(z.string()).optional().describe('destroy: the team and all that were below it.'),
  adopted_teams: z.array(z.string()).optional().describe('adopt: the team and all that were below it.'),
  message: z.string().optional().describe('What happened, in a sentence.'),
  teams: z.array(z.strictObject(row)).optional().describe('list: oldest first.'),
  count: z.int().optional(),
  message_id: z.string().optional(),
  status: z.enum(['delivered']).optional(),
  from: z.string().optional(),
  to: z.string().optional(),
  recipients: z.array(z.string()).optional().describe('message: whose inboxes it is in.'),
  message_type: z.string().optional(),
  agent: z.string().optional(),
  messages: z
    .array(
      z.strictObject({
        message_id: z.string(),
        from: z.string(),
        to: z.string(),
        content: z.string(),
        message_type: z.string(),
        timestamp: fields.time,
      }),
    )
    .optional()
    .describe('receive: oldest first; they are in the inbox no more.'),
  daemon_results: z
    .array(
      z.strictObject({
        task_id: z.string(),
        success: z.boolean().describe('Whether the command ended in time with exit code 0.'),
        exit_code: z.int().describe('128 and the number of the signal that ended it; -1 when it could not be run.'),
        stdout: z.string().describe('Of much output the beginning and the end, with a line that says so.'),
        stderr: z.string(),
        elapsed_secs: z.int(),
        source_message_id: z.string(),
      }),
    )
    .optional()
    .describe('receive: what became of tasks.'),
  daemon_pending_tasks: z.int().optional().describe('receive: tasks that are queued or running.'),
  remaining_messages: z.int().optional().describe('receive: what did not fit; receive again.'),
  remaining_results: z.int().optional(),
})
