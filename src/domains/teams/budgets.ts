import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { counted } from '../../kernel/counted.ts'
import type { TeamSettings } from './core.ts'
import { withSubTeams } from './core.ts'
import type { Team } from './ports.ts'
import { invalid } from './rules.ts'

type Counts = ReadonlyMap<string, number>

/** Members of the team and of everything below it. */
export const vmsUnder = (all: readonly Team[], counts: Counts, team: Team): number =>
  withSubTeams(all, team).reduce((sum, { name }) => sum + (counts.get(name) ?? 0), 0)

/** The budget of a new team: the requested one, or the default, and never more than the parent's. */
export function chooseBudget(
  { vmsPerTeamMax }: TeamSettings,
  requested: number | undefined,
  parent: Team | undefined,
): Readonly<{ maxVms: number; isLowered: boolean }> {
  if (requested !== undefined && requested > vmsPerTeamMax) {
    throw invalid('max_vms', `at most ${vmsPerTeamMax} for one team (teams.max_vms_per_team)`, { max: vmsPerTeamMax })
  }
  const own = requested ?? Math.min(limits.teamVmsDefault, vmsPerTeamMax)
  const maxVms = Math.min(own, parent?.maxVms ?? own)
  return { maxVms, isLowered: requested !== undefined && maxVms < requested }
}

/** Refuses members that exceed the budget of the team, of any team above it, or of the machine. */
export function requireBudget(
  settings: TeamSettings,
  plan: Readonly<{ name: string; maxVms: number; depth: number; roles: number; ancestors: readonly Team[] }>,
  all: readonly Team[],
  counts: Counts,
  onNode: number,
): void {
  const { roles, maxVms, depth } = plan
  if (depth > settings.nestingDepthMax) {
    throw exceeded(
      'max_nesting_depth',
      `parent_team: sub-teams may be ${counted(settings.nestingDepthMax, 'level')} deep; create it below a team further up`,
      { used: depth - 1, wanted: 1, limit: settings.nestingDepthMax },
    )
  }
  if (roles > maxVms) {
    throw exceeded(
      'max_vms',
      `roles: ${roles} members exceed the team's budget of ${maxVms}; raise max_vms or list fewer roles`,
      {
        name: plan.name,
        used: 0,
        wanted: roles,
        limit: maxVms,
      },
    )
  }
  for (const ancestor of plan.ancestors) {
    const used = vmsUnder(all, counts, ancestor)
    if (used + roles <= ancestor.maxVms) continue
    throw exceeded(
      'max_vms',
      `roles: the budget of the team '${ancestor.name}' is ${ancestor.maxVms}: ${used} are in use and ${roles} more are requested`,
      { name: ancestor.name, used, wanted: roles, limit: ancestor.maxVms },
    )
  }
  if (onNode + roles > settings.totalVmsMax) {
    throw exceeded(
      'max_total_vms',
      `roles: the limit for all teams is ${settings.totalVmsMax} members (teams.max_total_vms): ${onNode} exist and ${roles} more are requested`,
      { used: onNode, wanted: roles, limit: settings.totalVmsMax },
    )
  }
}

const exceeded = (quota: string, message: string, details: Record<string, unknown>): AppError =>
  new AppError('ERR_QUOTA_EXCEEDED', message, { quota, ...details })
