import { z } from 'zod'
import { limits } from '../../contract/limits.ts'

const name = z.string().min(1).max(limits.teamNameCharsMax)

/** The parameters of all actions. The service checks which of them an action takes. */
export const teamInput = z.strictObject({
  action: z
    .enum(['create', 'destroy', 'status', 'list', 'message', 'receive', 'adopt'])
    .describe('What to do; each action takes the parameters that name it.'),
  name: name.optional().describe('Name of the team, for all actions but list: letters, digits and "-".'),
  roles: z
    .array(
      z.strictObject({
        name: name.describe('Name of the member; its workspace is called TEAM-NAME.'),
        role: z.string().min(1).max(limits.teamTextCharsMax).describe('What it is, such as "coder" or "tester".'),
        skills: z.array(z.string().min(1).max(256)).max(limits.teamSkillsMax).optional().describe('What it can do.'),
        description: z.string().max(limits.teamTextCharsMax).optional().describe('What it is for.'),
      }),
    )
    .min(1)
    .max(1_000)
    .optional()
    .describe('create: the members, each with a workspace of its own.'),
  max_vms: z
    .int()
    .min(1)
    .max(100_000)
    .optional()
    .describe('create: how many members the team and its sub-teams may have together. Default 10.'),
  base_snapshot: z
    .string()
    .min(1)
    .max(257)
    .optional()
    .describe('create: WORKSPACE:SNAPSHOT that the members begin with; with golden_workspace only the snapshot.'),
  golden_workspace: z
    .string()
    .min(1)
    .max(128)
    .optional()
    .describe('create: workspace that the members are forked from, at base_snapshot or else at "golden".'),
  parent_team: name.optional().describe('create: the team of yours that this one is part of; its budget counts too.'),
  agent: name
    .optional()
    .describe('message: who sends; receive: whose inbox. A member, or "coordinator" or "owner" for yourself.'),
  to: name.optional().describe('message: a member, "owner", or "*" for all members but the sender.'),
  content: z
    .string()
    .max(limits.teamMessageBytesMax)
    .optional()
    .describe(
      'message: at most 256 KiB. For a task_assignment: JSON with task_id, command, workdir, env, timeout_secs.',
    )
    .meta({
      examples: ['{"task_id":"t1","command":"make test","workdir":"/workspace","env":{},"timeout_secs":300}'],
    }),
  message_type: z
    .string()
    .min(1)
    .max(limits.teamMessageTypeCharsMax)
    .optional()
    .describe('message: "task_assignment" has the command run in the workspace of the member. Default "text".')
    .meta({ examples: ['text', 'task_assignment'] }),
  limit: z
    .int()
    .min(1)
    .max(limits.teamReceiveMax)
    .optional()
    .describe('receive: how many messages at most. Default 10.'),
})
