import { z } from 'zod'
import { limits } from '../contract/limits.ts'
import { exposures, profileKinds } from '../contract/profile-kinds.ts'
import { sharingScopes } from '../contract/sharing.ts'
import { params } from './params.ts'
import type { StatedFailure } from './runtime/stated-failure.ts'

const id = (description: string) => z.string().min(1).max(128).describe(description)
const label = z.strictObject({
  key: z.string().min(1).max(256).describe('The label key.'),
  value: z.string().max(256).describe('The label value.'),
})
const suggestedPrompt = z.strictObject({
  summaryTitle: z.string().min(1).max(256).describe('Short title that people see.'),
  prompt: z.string().min(1).max(16_384).describe('What is sent when they choose it.'),
})
const assignmentFields = {
  toolId: id('Id or name of the tool; for gateways also server__*, for all that the server has now.'),
  resolveAtCallTime: z.boolean().optional().describe('The same as the mode dynamic.'),
  credentialResolutionMode: z
    .enum(['static', 'dynamic', 'enterprise_managed'])
    .optional()
    .describe('Whose credentials a call uses: those of mcpServerId, those of the caller, or exchanged ones.'),
  mcpServerId: id(
    'Deployment whose credentials are used in the mode static: its id, or the name of its server if you see one.',
  )
    .nullable()
    .optional(),
} as const
const toolAssignment = z.strictObject(assignmentFields)

const described = {
  toolId: z.string(),
  toolName: z.string().optional().describe('Its name, if toolId is not one.'),
  error: z.string().optional(),
  errorCode: z.enum(['not_found', 'validation_error']).optional(),
  errorType: z.string().optional(),
} as const

/** Assignments of tools to several targets. `target` is the field that names the target. */
export const bulkParams = <Target extends z.ZodRawShape>(target: Target) =>
  z
    .array(z.strictObject({ ...assignmentFields, ...target }))
    .min(1)
    .max(limits.toolAssignmentsPerCallMax)

/** A script can tell names that do not exist from assignments that break a rule. */
export const bulkFailure = {
  kind: 'conflict',
  field: 'failed',
  is: { empty: false },
  byErrorCode: { not_found: 'not-found', validation_error: 'input' },
} as const satisfies StatedFailure

export function bulkOutput<Target extends z.ZodRawShape>(target: Target) {
  const rows = z.array(z.strictObject({ ...target, ...described }))
  return z.strictObject({
    succeeded: rows.describe('New ones, and those whose credentials changed.'),
    failed: rows.describe('Those that were not made, each with the reason.'),
    duplicates: rows.describe('Those that were there already.'),
  })
}

/** The input for agents, gateways and proxies. */
export const profileParams = {
  name: z.string().min(1).max(limits.profileNameCharsMax),
  idOrName: id,
  scope: z.enum(sharingScopes).describe('Who sees it: you alone, the members of its teams, or the organisation.'),
  teams: z.array(id('Id or name of a team.')).max(100).describe('Teams of people that have it, for the scope team.'),
  labels: z.array(label).max(limits.profileLabelsMax).describe('Labels to find it by.'),
  exposure: z
    .enum(exposures)
    .describe('full lists all assigned tools; search_and_run_only lists search_tools and run_tool in their place.'),
  description: z.string().max(4_096).nullable().describe('What it is for.'),
  icon: z.string().max(16).nullable().describe('An emoji.'),
  knowledgeBaseIds: z.array(id('Id of a knowledge base.')).max(100).describe('Knowledge bases to assign.'),
  connectorIds: z.array(id('Id of a knowledge connector.')).max(100).describe('Knowledge connectors to assign.'),
  subAgentIds: z
    .array(id('Id or name of an agent.'))
    .max(limits.subAgentsMax)
    .describe('Agents to which this one can hand a task on; each becomes a tool of it.'),
  suggestedPrompts: z.array(suggestedPrompt).max(limits.suggestedPromptsMax).describe('Prompts to begin with.'),
  systemPrompt: z
    .string()
    .max(131_072)
    .nullable()
    .describe('Who the agent is and how it behaves; the model gets it as its system message.'),
  toolAssignments: z.array(toolAssignment).max(256),
  considerContextUntrusted: z
    .boolean()
    .describe(
      'Whether its context is untrusted from the start. Only a context that has read nothing untrusted can end that.',
    ),
} as const

/** What every new profile may be given besides its name, its scope and what only its kind has. */
export const newProfileParams = {
  labels: profileParams.labels.optional(),
  teams: profileParams.teams.optional(),
  toolExposureMode: profileParams.exposure.optional(),
  considerContextUntrusted: profileParams.considerContextUntrusted.optional(),
  description: profileParams.description.optional(),
  icon: profileParams.icon.optional(),
} as const

/** What may be changed of every profile with an address. */
export const changedProfileParams = {
  description: profileParams.description.optional(),
  icon: profileParams.icon.optional(),
  labels: profileParams.labels.optional().describe('Its labels from now on.'),
  name: profileParams.name.optional().describe('Its new name. Its address stays.'),
  scope: profileParams.scope.optional(),
  toolExposureMode: profileParams.exposure.optional(),
  considerContextUntrusted: profileParams.considerContextUntrusted.optional(),
  teams: profileParams.teams.optional().describe('The teams that have it from now on, for the scope team.'),
} as const

export const profileListParams = z.strictObject({
  limit: params.limit(100, 1000),
  offset: params.offset,
  name: id('Only those whose name has this in it, in any case.').optional(),
})

const named = { id: z.string(), name: z.string() }

/** Agents, gateways and proxies as callers see them. */
export const profileFields = {
  scope: z.enum(sharingScopes),
  team: z.strictObject(named),
  label: z.strictObject({ key: z.string(), value: z.string() }),
  agent: z.strictObject({
    ...named,
    slug: z
      .string()
      .describe('The name in addresses, manifests and names of tools; it stays when the agent is renamed.'),
    description: z.string().nullable(),
    icon: z.string().nullable(),
    scope: z.enum(sharingScopes),
    toolExposureMode: z.enum(exposures),
    considerContextUntrusted: z.boolean().describe('Whether its context is untrusted from the start.'),
    agentType: z.enum(profileKinds),
    systemPrompt: z.string().nullable().optional(),
    teams: z.array(z.strictObject(named)),
    labels: z.array(z.strictObject({ key: z.string(), value: z.string() })),
    tools: z.array(z.strictObject({ ...named, description: z.string().nullable(), catalogId: z.string().nullable() })),
    knowledgeBaseIds: z.array(z.string()),
    connectorIds: z.array(z.string()),
    suggestedPrompts: z.array(z.strictObject({ summaryTitle: z.string(), prompt: z.string() })),
    subAgentIds: z.array(z.string()),
  }),
} as const
