import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { optimizationRuleFields } from './optimization-rule-fields.ts'

export default defineTool({
  name: 'optimization_rule_update',
  toolset: 'model-proxies',
  title: 'Change a rule for cheaper models',
  description:
    'Rename a rule for cheaper models, switch it on or off, or change its conditions or its target model. What you leave out stays. For another provider or entity create another rule with optimization_rule_create.',
  permission: 'optimizationRule:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  needsChange: true,
  trust: { governs: true },
  input: z.strictObject({
    rule: optimizationRuleFields.rule,
    name: optimizationRuleFields.name.optional().describe('The new name.'),
    ...optimizationRuleFields.conditions,
    target_model: optimizationRuleFields.targetModel.optional(),
    enabled: optimizationRuleFields.enabled.optional(),
  }),
  output: z.strictObject({ rule: optimizationRuleFields.view }),
  run: (input, { optimizationRules, call }) => optimizationRules.update(call, input),
})
