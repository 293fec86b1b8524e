import type { Database } from '../../contract/database.ts'
import { createTeamService, type TeamService } from '../../domains/teams/service.ts'
import type { VaultService } from '../../domains/vault/service.ts'
import { sqlTeamStore } from '../../stores/sql/team-store.ts'
import { sqlWorkspaceStore } from '../../stores/sql/workspace-store.ts'
import type { AppDeps } from '../build-app.ts'
import type { OpenedWorkspaces } from './open-workspaces.ts'

type OpenedTeams = Readonly<{ service: TeamService; close(): Promise<void> }>

/** The teams of this machine, on its workspaces; resumes their tasks. */
export function openTeams(
  { config, clock, random, logger }: AppDeps,
  parts: Readonly<{ database: Database; workspaces: OpenedWorkspaces; vault: VaultService }>,
): OpenedTeams {
  const { database, workspaces, vault } = parts
  const service = createTeamService({
    ...workspaces.backendDeps,
    store: sqlTeamStore,
    workspaces: workspaces.service,
    workspaceRows: sqlWorkspaceStore,
    vault: vault.files,
    database,
    settings: {
      vmsPerTeamMax: config.teams.max_vms_per_team,
      nestingDepthMax: config.teams.max_nesting_depth,
      totalVmsMax: config.teams.max_total_vms,
    },
    clock,
    random,
    logger,
  })
  const recovered = workspaces.recovered
    .then(() => service.begin())
    .catch((error) => {
      logger.warn('team recovery failed', { cause: String(error) })
    })
  return {
    service,
    async close() {
      await recovered
      await service.close()
    },
  }
}
