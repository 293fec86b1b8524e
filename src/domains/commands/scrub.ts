import type { Workspace } from '../workspaces/ports.ts'

/** Names of variables that carry credentials of whoever runs the machine; the same whether set_env or an image set them. */
const PREFIXES = ['AWS_', 'AZURE_', 'GCP_', 'GOOGLE_', 'CI_'] as const
const NAMES = new Set([
  'GITHUB_TOKEN',
  'AEGIS_SECRET',
  'AEGIS_TOKEN',
  'OPENAI_API_KEY',
  'ANTHROPIC_API_KEY',
  'CASTELLAN_KEY',
])
const isSecret = (name: string): boolean => NAMES.has(name) || PREFIXES.some((prefix) => name.startsWith(prefix))

/** The same workspace without what a command of an agent is not to see. Nothing of the server's own environment ever is. */
export const scrubbed = (workspace: Workspace): Workspace => ({
  ...workspace,
  env: Object.fromEntries(Object.entries(workspace.env).filter(([name]) => !isSecret(name))),
})
