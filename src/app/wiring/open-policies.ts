import { type Capability, type SecurityContext, toSubcommandAllowlist } from '../../contract/security-context.ts'
import { createPolicyEvaluator, type PolicyEvaluator } from '../../domains/policies/policy-evaluator.ts'
import { type ContextRegistry, createContextRegistry } from '../../domains/policies/shipped-contexts.ts'
import type { AppDeps } from '../build-app.ts'

type Configured = AppDeps['config']['security_contexts'][number]

export type OpenedPolicies = Readonly<{ evaluator: PolicyEvaluator; contexts: ContextRegistry }>

/** The security contexts there are, and the evaluator that holds them against calls. */
export function openPolicies({ config, clock }: Pick<AppDeps, 'config' | 'clock'>): OpenedPolicies {
  return {
    evaluator: createPolicyEvaluator({ clock }),
    contexts: createContextRegistry(config.security_contexts.map(toContext)),
  }
}

const toContext = ({ name, description, capabilities, deny_list }: Configured): SecurityContext => ({
  name,
  description,
  capabilities: capabilities.map(toCapability),
  denyList: deny_list,
})

function toCapability(given: Configured['capabilities'][number]): Capability {
  const { rate_limit: rate, subcommand_allowlist: subcommands } = given
  return {
    toolPattern: given.tool_pattern,
    ...(given.path_allowlist && { pathAllowlist: given.path_allowlist }),
    ...(given.command_allowlist && { commandAllowlist: given.command_allowlist }),
    ...(subcommands && { subcommandAllowlist: toSubcommandAllowlist(subcommands) }),
    ...(given.domain_allowlist && { domainAllowlist: given.domain_allowlist }),
    ...(given.domain_denylist && { domainDenylist: given.domain_denylist }),
    ...(given.max_response_size !== undefined && { maxResponseBytes: given.max_response_size }),
    ...(rate && { rateLimit: { calls: rate.calls, perSeconds: rate.per_seconds } }),
    ...(given.max_concurrent !== undefined && { maxConcurrent: given.max_concurrent }),
  }
}
