import type { ToolDefinition } from '../runtime/define-tool.ts'
import contextTrustClear from './context-trust-clear.ts'
import contextTrustGet from './context-trust-get.ts'
import createToolInvocationPolicy from './create-tool-invocation-policy.ts'
import createTrustedDataPolicy from './create-trusted-data-policy.ts'
import deleteToolInvocationPolicy from './delete-tool-invocation-policy.ts'
import deleteTrustedDataPolicy from './delete-trusted-data-policy.ts'
import getAutonomyPolicyOperators from './get-autonomy-policy-operators.ts'
import getToolInvocationPolicies from './get-tool-invocation-policies.ts'
import getToolInvocationPolicy from './get-tool-invocation-policy.ts'
import getTrustedDataPolicies from './get-trusted-data-policies.ts'
import getTrustedDataPolicy from './get-trusted-data-policy.ts'
import policyExplain from './policy-explain.ts'
import policySimulate from './policy-simulate.ts'
import updateToolInvocationPolicy from './update-tool-invocation-policy.ts'
import updateTrustedDataPolicy from './update-trusted-data-policy.ts'

export const policyTools: readonly ToolDefinition[] = [
  contextTrustClear,
  contextTrustGet,
  createToolInvocationPolicy,
  createTrustedDataPolicy,
  deleteToolInvocationPolicy,
  deleteTrustedDataPolicy,
  getAutonomyPolicyOperators,
  getToolInvocationPolicies,
  getToolInvocationPolicy,
  getTrustedDataPolicies,
  getTrustedDataPolicy,
  policyExplain,
  policySimulate,
  updateToolInvocationPolicy,
  updateTrustedDataPolicy,
]
