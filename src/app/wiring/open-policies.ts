import { type Capability, type SecurityContext, toSubcommandAllowlist } from '../../contract/security-context.ts'
import { createPolicyEvaluator, type PolicyEvaluator } from '../../domains/security-contexts/policy-evaluator.ts'
import { type ContextRegistry, createContextRegistry } from '../../domains/security-contexts/shipped-contexts.ts'
import type { AppDeps } from '../build-app.ts'

type Configured = AppDeps['config']['security_contexts'][number]

export type OpenedPolicies = Readonly<{ evaluator: PolicyEvaluator; contexts: ContextRegistry }>

/** The configured security contexts, and their evaluator. */
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

function toCapability(input: Configured['capabilities'][number]): Capability {
  const { rate_limit: rate, subcommand_allowlist: subcommands } = input
  return {
    toolPattern: input.tool_pattern,
    ...(input.path_allowlist && { pathAllowlist: input.path_allowlist }),
    ...(input.command_allowlist && { commandAllowlist: input.command_allowlist }),
    ...(subcommands && { subcommandAllowlist: toSubcommandAllowlist(subcommands) }),
    ...(input.domain_allowlist && { domainAllowlist: input.domain_allowlist }),
    ...(input.domain_denylist && { domainDenylist: input.domain_denylist }),
    ...(input.max_response_size !== undefined && { maxResponseBytes: input.max_response_size }),
    ...(rate && { rateLimit: { calls: rate.calls, perSeconds: rate.per_seconds } }),
    ...(input.max_concurrent !== undefined && { maxConcurrent: input.max_concurrent }),
  }
}
