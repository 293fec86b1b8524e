import { z } from 'zod'
import { profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { optimizationRuleFields } from './optimization-rule-fields.ts'

export default defineTool({
  name: 'optimization_rule_create',
  toolset: 'model-proxies',
  title: 'Create a rule for cheaper models',
  description:
    'Use a cheaper model for simple requests: create a rule by which requests of an organisation, a team, an agent or a model proxy to a provider use another of its models, if they are short or have no tools. It applies to programs at the model proxy and to agents. interaction_list with totals shows what was saved; create_limit sets a budget instead.',
  permission: 'optimizationRule:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    name: optimizationRuleFields.name.describe('What you call it, such as "short-questions".'),
    entity_type: optimizationRuleFields.entityType.describe('Whose requests. agent is also for model proxies.'),
    entity_id: profileParams.idOrName('Id or name of the entity. For organization, the id of your own organisation.'),
    provider: profileParams.idOrName('Name of the provider, such as "openai".'),
    ...optimizationRuleFields.conditions,
    target_model: optimizationRuleFields.targetModel,
    enabled: optimizationRuleFields.enabled.default(true),
  }),
  output: z.strictObject({ rule: optimizationRuleFields.view }),
  run: (input, { optimizationRules, call }) => optimizationRules.create(call, input),
})
