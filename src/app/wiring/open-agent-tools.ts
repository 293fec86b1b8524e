import type { ToolInvoker } from '../../contract/tool-invoker.ts'
import { type CommandService, createCommandService } from '../../domains/commands/service.ts'
import { createFileService, type FileService } from '../../domains/files/service.ts'
import { pathBoundaries, requireHost } from '../../domains/security-contexts/policy-evaluator.ts'
import { createWebService, type WebService } from '../../domains/web/service.ts'
import { createPersonalWorkspaces } from '../../domains/workspaces/personal.ts'
import type { WorkspaceService } from '../../domains/workspaces/service.ts'
import { createHttpClient } from '../../web-client/http-client.ts'
import { createPageReader } from '../../web-client/page-reader.ts'
import type { AppDeps } from '../build-app.ts'

type AgentTools = Readonly<{ files: FileService; commands: CommandService; web: WebService }>

/** The tools of agents: files and commands in their workspace, and the web. */
export function openAgentTools(
  { config, version }: Pick<AppDeps, 'config' | 'version'>,
  { workspaces, invoker }: Readonly<{ workspaces: WorkspaceService; invoker: ToolInvoker }>,
): AgentTools {
  const personalWorkspaces = createPersonalWorkspaces({ workspaces, invoker })
  const { timeout_secs, timeout_ceiling_secs, max_output_bytes } = config.commands
  return {
    files: createFileService({ workspaces, personalWorkspaces, boundariesOf: pathBoundaries }),
    commands: createCommandService({
      workspaces,
      personalWorkspaces,
      settings: {
        timeoutSecs: timeout_secs,
        timeoutCeilingSecs: timeout_ceiling_secs,
        outputBytesMax: max_output_bytes,
      },
    }),
    web: openWeb(config.web, version),
  }
}

const openWeb = (web: AppDeps['config']['web'], version: string): WebService =>
  createWebService({
    client: createHttpClient({ allowedNetworks: web.allow_private_addresses }),
    pages: createPageReader(),
    bytesMax: web.max_response_bytes,
    userAgent: `Mozilla/5.0 (compatible; Castellan/${version})`,
    requireHost: ({ principal }, tool, host) => requireHost(principal, tool, host),
    settings: { engine: web.search_engine, url: web.search_url, key: () => web.search_key?.reveal() },
  })
