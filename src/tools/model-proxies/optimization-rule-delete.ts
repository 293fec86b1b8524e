import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { optimizationRuleFields } from './optimization-rule-fields.ts'

export default defineTool({
  name: 'optimization_rule_delete',
  toolset: 'model-proxies',
  title: 'Delete a rule for cheaper models',
  description:
    'Delete a rule for cheaper models. New requests use the model that they name, unless another rule matches. Use optimization_rule_update with enabled=false to switch it off for a while.',
  permission: 'optimizationRule:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({ rule: optimizationRuleFields.rule }),
  output: z.strictObject({ id: z.string(), deleted: z.literal(true) }),
  run: (input, { optimizationRules, call }) => optimizationRules.remove(call, input),
})
