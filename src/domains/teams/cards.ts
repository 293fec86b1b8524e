import type { TenantId } from '../../contract/principal.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { Workspace } from '../workspaces/ports.ts'
import type { TeamDeps } from './core.ts'
import type { Team, TeamMember } from './ports.ts'

const teamFolder = (team: string): string => `teams/${team}`
const cardFolder = (team: string): string => `${teamFolder(team)}/cards`
const cardPath = (team: string, member: string): string => `${cardFolder(team)}/${member}.json`

/** What others can learn about a member without a message: one file in the vault. */
export async function writeCard({ vault }: TeamDeps, team: Team, member: TeamMember, workspace: Workspace) {
  const card = {
    name: member.name,
    role: member.role,
    description: member.description,
    skills: member.skills,
    team: team.name,
    workspace_id: workspace.id,
    workspace_name: workspace.name,
    endpoints: { ip: workspace.ip },
    status: 'ready',
    created_at: isoTime(team.createdAtMs),
  }
  await vault.write(team.tenant, cardPath(team.name, member.name), `${JSON.stringify(card, null, 2)}\n`)
}

/** Files that people wrote beside the cards stay, and so do their folders. */
export async function removeCards(
  { vault }: TeamDeps,
  tenant: TenantId,
  team: string,
  members: readonly TeamMember[],
): Promise<void> {
  for (const { name } of members) await vault.delete(tenant, cardPath(team, name))
  for (const folder of [cardFolder(team), teamFolder(team)]) await vault.removeEmptyFolder(tenant, folder)
}
