import { editDistance, squashName } from '../../kernel/nearest-name.ts'

const CONTEXT = 'a context in security_contexts of the configuration, which spec.security_context names'
const COMMANDS = 'spec.builtin_dispatchers[].capabilities[], beside name: cmd.run'

/** Fields that restrict something, and their positions. */
const paths: Readonly<Record<string, string>> = {
  access_mode: 'spec.volumes[]',
  allowed_domains: 'spec.security.network, as allowlist',
  allowed_paths: 'spec.security.filesystem, as read and write',
  allowlist: 'spec.security.network',
  blocked_domains: 'spec.security.network, as denylist',
  command_allowlist: COMMANDS,
  denied_domains: 'spec.security.network, as denylist',
  deny_list: CONTEXT,
  denylist: 'spec.security.network',
  domain_allowlist: 'spec.security.network, as allowlist',
  domain_denylist: 'spec.security.network, as denylist',
  env_denylist: 'spec.env, which has only what you name',
  filesystem: 'spec.security',
  filesystem_policy: 'spec.security, as filesystem',
  max_concurrent: CONTEXT,
  max_output_bytes: 'commands of the configuration',
  max_response_size: CONTEXT,
  network: 'spec.security',
  network_policy: 'spec.security, as network',
  path_allowlist: 'spec.security.filesystem, as read and write',
  rate_limit: CONTEXT,
  read_only: 'spec.security.filesystem',
  resources: 'spec.security',
  security: 'spec',
  security_context: 'spec',
  subcommand_allowlist: COMMANDS,
  timeout_ceiling_secs: 'commands of the configuration',
  tool_validation: 'spec.execution',
  tools: 'spec',
}

const TYPO_LENGTH_MIN = 8
const TYPO_MAX = 2

/**
 * The right position of a restricting field that has no effect where it is, or is misspelt. Ignoring it would leave open what its
 * author wanted closed.
 */
export function securityPathOf(key: string): Readonly<{ field: string; path: string }> | undefined {
  const input = squashName(key)
  for (const [field, path] of Object.entries(paths)) {
    const squashed = squashName(field)
    const isTypo = squashed.length >= TYPO_LENGTH_MIN && editDistance(input, squashed, TYPO_MAX) <= TYPO_MAX
    if (input === squashed || isTypo) return { field, path }
  }
  return undefined
}
