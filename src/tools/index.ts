import { agentTools } from './agents/index.ts'
import { cmdTools } from './cmd/index.ts'
import { executionTools } from './executions/index.ts'
import { fsTools } from './fs/index.ts'
import { identityTools } from './identity/index.ts'
import { intentTools } from './intents/index.ts'
import { ledgerTools } from './ledger/index.ts'
import { logTools } from './log/index.ts'
import { metaTools } from './meta/index.ts'
import { modeTools } from './modes/index.ts'
import { platformTools } from './platform/index.ts'
import type { ToolDefinition, Toolset } from './runtime/define-tool.ts'
import { serverTools } from './server/index.ts'
import { teamTools } from './teams/index.ts'
import { vaultTools } from './vault/index.ts'
import { webTools } from './web/index.ts'
import { workflowTools } from './workflows/index.ts'
import { workspaceTools } from './workspaces/index.ts'

/** Every tool of the product. */
export const allTools: Readonly<Record<Toolset, readonly ToolDefinition[]>> = {
  meta: metaTools,
  ledger: ledgerTools,
  log: logTools,
  server: serverTools,
  identity: identityTools,
  vault: vaultTools,
  workspaces: workspaceTools,
  teams: teamTools,
  agents: agentTools,
  cmd: cmdTools,
  executions: executionTools,
  fs: fsTools,
  modes: modeTools,
  intents: intentTools,
  platform: platformTools,
  web: webTools,
  workflows: workflowTools,
}
