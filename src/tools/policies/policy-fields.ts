import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import {
  invocationActions as invocation,
  operators,
  quantifiers,
  resultActions as result,
  valueTypes,
} from '../../contract/policy-conditions.ts'

const operator = z.enum(operators)
const extras = {
  quantifier: z
    .enum(quantifiers)
    .optional()
    .describe('Of the values that a key with [*] finds: all (and there are some), any, or none; all if left out.'),
  type: z
    .enum(valueTypes)
    .optional()
    .describe('What the value is compared as; with number and boolean only equal and notEqual; string if left out.'),
}

/** `about` says what a key leads to. */
const conditionOf = (about: string) =>
  z.strictObject({
    key: z.string().min(1).max(limits.policyKeyCharsMax).describe(about),
    operator: operator.describe('The comparison operator.'),
    value: z
      .string()
      .max(limits.policyValueCharsMax)
      .describe('The value to compare against; for regex an RE2 pattern, found anywhere in the text.'),
    ...extras,
  })
const conditionsOf = (about: string) =>
  z
    .array(conditionOf(about))
    .max(limits.policyConditionsMax)
    .describe('Conditions that must all match. An empty list makes it the default of the tool.')

const note = z.string().max(limits.policyNoteCharsMax)

export const policyParams = {
  id: z.string().min(1).max(64).describe('Id of the policy.'),
  toolId: z
    .string()
    .min(1)
    .max(256)
    .describe(
      'Id or name of the tool: one of this server, one of an MCP server behind it, client:NAME for one of a program at the model proxy, or, for calls alone, agent:ID for handing tasks on to an agent.',
    ),
  invocationConditions: conditionsOf(
    'Path into the arguments, such as url or to[*].address; or context.teamIds, context.externalAgentId, context.userId, context.agentId, context.gatewayId, context.origin.',
  ),
  resultConditions: conditionsOf('Path into the result, such as source or emails[*].from.'),
  invocationAction: z.enum(invocation).describe('What to do when the policy matches.'),
  resultAction: z.enum(result).describe('What the result is when the policy matches.'),
  note: note.describe('Why this policy exists, for people.'),
} as const

const condition = z.strictObject({
  key: z.string(),
  operator,
  value: z.string(),
  ...extras,
})
const shared = {
  id: z.string().describe('The policy ID.'),
  toolId: z.string().describe('The tool that the policy is for.'),
  toolName: z.string().optional().describe('Its name, if toolId is not one.'),
  conditions: z.array(condition).describe('Conditions evaluated for the policy.'),
}

export const invocationPolicy = z.strictObject({
  ...shared,
  action: z.enum(invocation),
  reason: z.string().nullable(),
})
export const trustedDataPolicy = z.strictObject({
  ...shared,
  action: z.enum(result),
  description: z.string().nullable(),
})
