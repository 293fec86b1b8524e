import { join } from 'node:path'
import type { Database } from '../../contract/database.ts'
import type { OwnerDirectory } from '../../contract/owner-directory.ts'
import type { ToolInvoker } from '../../contract/tool-invoker.ts'
import { createGitService } from '../../domains/git/service.ts'
import { createSwarmService } from '../../domains/swarm/service.ts'
import { visibleTeamNames } from '../../domains/teams/core.ts'
import type { Workspace } from '../../domains/workspaces/ports.ts'
import type { WorkspaceService } from '../../domains/workspaces/service.ts'
import type { DiskReserve } from '../../stores/files/disk-reserve.ts'
import { sqlTeamStore } from '../../stores/sql/team-store.ts'
import type { Services } from '../../tools/runtime/services.ts'
import type { AppDeps } from '../build-app.ts'
import { workspacesDirectory } from '../state-directory.ts'
import { openAgentTools } from './open-agent-tools.ts'
import type { OwnerWatch } from './open-owner-watch.ts'
import { openTeams } from './open-teams.ts'
import { openVault } from './open-vault.ts'
import { type OpenedWorkspaces, openWorkspaces } from './open-workspaces.ts'

export type WorkspaceServices = Readonly<{
  services: Pick<Services, 'workspaces' | 'teams' | 'vault' | 'git' | 'swarms' | 'files' | 'commands' | 'web'>
  opened: OpenedWorkspaces
  /** Where the workspaces of this state have their images. */
  imageFolder: string
  close(): Promise<void>
}>

export type WorkspaceServicesParts = Readonly<{
  database: Database
  /** Of the state. */
  directory: string
  ownerWatch: OwnerWatch
  owners: OwnerDirectory
  disk: DiskReserve | undefined
  invoker: ToolInvoker
}>

/** Workspaces, and everything that uses them. */
export function openWorkspaceServices(deps: AppDeps, parts: WorkspaceServicesParts): WorkspaceServices {
  const { database, directory, ownerWatch, owners, disk, invoker } = parts
  const opened = openWorkspaces(deps, { database, directory }, { ownerWatch, owners, reserve: disk })
  const workspaces = opened.service
  const vault = openVault(deps, directory, (call) => visibleTeamNames({ owners, store: sqlTeamStore }, call, call.read))
  const teams = openTeams(deps, { database, workspaces: opened, vault })
  const git = gitIn(workspaces)
  return {
    services: {
      workspaces,
      vault,
      teams: teams.service,
      git,
      swarms: createSwarmService({ ...deps, workspaces, git }),
      ...openAgentTools(deps, { workspaces, invoker }),
    },
    opened,
    imageFolder: join(workspacesDirectory(directory), 'images'),
    async close() {
      await teams.close()
      await opened.close()
    },
  }
}

/** Git runs inside a workspace, like everything else. */
const gitIn = (workspaces: WorkspaceService) =>
  createGitService({
    access: { resolve: workspaces.resolve },
    runner: {
      run: (workspace: Workspace, request) => workspaces.runRaw(workspace, request),
      readFile: async (workspace: Workspace, path) => (await workspaces.openFiles(workspace).read(path)).stream,
    },
  })
