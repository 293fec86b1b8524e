import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { optimizationRuleFields } from './optimization-rule-fields.ts'

export default defineTool({
  name: 'optimization_rule_list',
  toolset: 'model-proxies',
  title: 'List rules for cheaper models',
  description:
    'List the rules by which cheaper models are used in your organisation, the oldest first. For one request, rules of the agent or proxy come before those of a team, and these before those of the organisation; of each the oldest that matches is used.',
  permission: 'optimizationRule:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({}),
  output: z.strictObject({ rules: z.array(optimizationRuleFields.view) }),
  run: (_, { optimizationRules, call }) => optimizationRules.list(call),
})
