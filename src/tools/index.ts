import type { ToolDefinition, Toolset } from './runtime/define-tool.ts'

/** Every tool, by toolset. A toolset imports the domains that it needs, so each is loaded on its own. */
const toolsetLoaders: Readonly<Record<Toolset, () => Promise<readonly ToolDefinition[]>>> = {
  meta: async () => (await import('./meta/index.ts')).metaTools,
  ledger: async () => [
    ...(await import('./tasks/index.ts')).taskTools,
    ...(await import('./trail/index.ts')).trailTools,
    ...(await import('./skills/index.ts')).skillTools,
  ],
  log: async () => (await import('./log/index.ts')).logTools,
  server: async () => (await import('./server/index.ts')).serverTools,
  identity: async () => [
    ...(await import('./identity/index.ts')).identityTools,
    ...(await import('./seal/index.ts')).sealTools,
  ],
  vault: async () => (await import('./vault/index.ts')).vaultTools,
  workspaces: async () => (await import('./workspaces/index.ts')).workspaceTools,
  teams: async () => (await import('./teams/index.ts')).teamTools,
  agents: async () => (await import('./agents/index.ts')).agentTools,
  cmd: async () => (await import('./commands/index.ts')).commandTools,
  executions: async () => (await import('./executions/index.ts')).executionTools,
  fs: async () => (await import('./files/index.ts')).fileTools,
  gateways: async () => (await import('./gateways/index.ts')).gatewayTools,
  'model-proxies': async () => (await import('./model-proxies/index.ts')).modelProxyTools,
  interactions: async () => (await import('./interactions/index.ts')).interactionTools,
  limits: async () => (await import('./limits/index.ts')).limitTools,
  modes: async () => (await import('./modes/index.ts')).modeTools,
  intents: async () => (await import('./intents/index.ts')).intentTools,
  people: async () => (await import('./people/index.ts')).peopleTools,
  policies: async () => (await import('./policies/index.ts')).policyTools,
  platform: async () => (await import('./platform/index.ts')).platformTools,
  'mcp-servers': async () => (await import('./mcp-servers/index.ts')).mcpServerTools,
  secrets: async () => (await import('./secrets/index.ts')).secretTools,
  web: async () => (await import('./web/index.ts')).webTools,
  workflows: async () => [
    ...(await import('./workflows/index.ts')).workflowTools,
    ...(await import('./approvals/index.ts')).approvalTools,
  ],
}

export const loadToolset = (toolset: Toolset): Promise<readonly ToolDefinition[]> => toolsetLoaders[toolset]()

export async function loadAllTools(): Promise<Readonly<Record<Toolset, readonly ToolDefinition[]>>> {
  const loaded = Object.entries(toolsetLoaders).map(async ([toolset, load]) => [toolset, await load()] as const)
  return Object.fromEntries(await Promise.all(loaded)) as Record<Toolset, readonly ToolDefinition[]>
}
