/** Names of variables that carry the machine operator's credentials; the same whether set_env or an image set them. */
const PREFIXES = ['AWS_', 'AZURE_', 'GCP_', 'GOOGLE_', 'CI_'] as const
const NAMES = new Set([
  'GITHUB_TOKEN',
  'AEGIS_SECRET',
  'AEGIS_TOKEN',
  'OPENAI_API_KEY',
  'ANTHROPIC_API_KEY',
  'CASTELLAN_KEY',
])

/** What a command of an agent is not to see of its workspace. Nothing of the server's own environment ever is there. */
export const isSecretName = (name: string): boolean =>
  NAMES.has(name) || PREFIXES.some((prefix) => name.startsWith(prefix))
