import type { ToolDesk } from '../contract/tool-desk.ts'
import { type CommandService, createCommandService } from '../domains/commands/service.ts'
import { createFileService, type FileService } from '../domains/files/service.ts'
import { pathBoundaries } from '../domains/policies/policy-desk.ts'
import { createWorkplaces } from '../domains/workspaces/personal.ts'
import type { WorkspaceService } from '../domains/workspaces/service.ts'
import type { AppDeps } from './build-app.ts'

export type AgentTools = Readonly<{ files: FileService; commands: CommandService }>

/** What agents work with: files and commands in a workspace of their own. */
export function openAgentTools(
  { config }: Pick<AppDeps, 'config'>,
  { workspaces, desk }: Readonly<{ workspaces: WorkspaceService; desk: ToolDesk }>,
): AgentTools {
  const workplaces = createWorkplaces({ workspaces, desk })
  const { timeout_secs, timeout_ceiling_secs, max_output_bytes } = config.commands
  return {
    files: createFileService({ workspaces, workplaces, boundariesOf: pathBoundaries }),
    commands: createCommandService({
      workspaces,
      workplaces,
      settings: {
        timeoutSecs: timeout_secs,
        timeoutCeilingSecs: timeout_ceiling_secs,
        outputBytesMax: max_output_bytes,
      },
    }),
  }
}
