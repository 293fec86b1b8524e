import type { RawBuilder, Selectable } from 'kysely'
import type { TenantId } from '../../contract/principal.ts'
import type { Viewer } from '../../contract/sharing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { SharedWithTeamTable } from './governance-schema.ts'
import { type Kit, rawStatement, statement } from './statements.ts'
import { sessionOf, sharedWriterOf, writerOf } from './tx.ts'

/** What is shared: the kind says in which table the id is. */
type SharedKind = 'profile' | 'mcp_catalog_item' | 'mcp_deployment' | 'skill' | 'app' | 'virtual_key' | 'provider_key'

/** The arguments of `isVisible`; part of those of the statement. */
export type ViewerArgs = { viewer: string; viewer_teams: string; sees_every_team: number; sees_every_personal: number }

export const viewerArgs = ({ identity, teams, seesEveryTeam, seesEveryPersonal }: Viewer): ViewerArgs => ({
  viewer: identity,
  viewer_teams: JSON.stringify(teams),
  sees_every_team: seesEveryTeam ? 1 : 0,
  sees_every_personal: seesEveryPersonal ? 1 : 0,
})

/**
 * The rows of a table that a viewer sees, as a condition for any statement. The table has the columns `tenant`, `id`, `scope` and
 * `author`; its teams are in `shared_with_teams`. The same rule as `canSee`.
 */
export function isVisible(
  arg: <Name extends keyof ViewerArgs>(name: Name) => ViewerArgs[Name],
  { dialect, sql }: Kit,
  table: string,
  kind: SharedKind,
): RawBuilder<boolean> {
  const column = (name: string) => sql.ref(`${table}.${name}`)
  const ownTeams =
    dialect === 'postgres'
      ? sql`select json_array_elements_text(${arg('viewer_teams')}::text::json)`
      : sql`select value from json_each(${arg('viewer_teams')})`
  const yes = (name: 'sees_every_team' | 'sees_every_personal') =>
    dialect === 'postgres' ? sql`${arg(name)}::integer = 1` : sql`${arg(name)} = 1`
  return sql<boolean>`(${column('scope')} = 'org'
    or (${column('scope')} = 'personal' and (${column('author')} = ${arg('viewer')} or ${yes('sees_every_personal')}))
    or (${column('scope')} = 'team' and (${yes('sees_every_team')} or exists (
      select 1 from shared_with_teams
      where shared_with_teams.tenant = ${column('tenant')} and shared_with_teams.kind = ${sql.lit(kind)}
        and shared_with_teams.resource_id = ${column('id')} and shared_with_teams.team_id in (${ownTeams})))))`
}

type TeamRow = Selectable<SharedWithTeamTable>
type Of = { tenant: string; kind: string; resource_id: string }

const addTeam = statement<TeamRow>('sharing.addTeam')((db, _arg, { columns }) =>
  db.insertInto('shared_with_teams').values(columns(['tenant', 'kind', 'resource_id', 'team_id'])),
)
const removeTeams = statement<Of>('sharing.removeTeams')((db, arg) =>
  db
    .deleteFrom('shared_with_teams')
    .where('tenant', '=', arg('tenant'))
    .where('kind', '=', arg('kind'))
    .where('resource_id', '=', arg('resource_id')),
)
const teamsOf = statement<Of>('sharing.teamsOf')((db, arg) =>
  db
    .selectFrom('shared_with_teams')
    .select('team_id')
    .where('tenant', '=', arg('tenant'))
    .where('kind', '=', arg('kind'))
    .where('resource_id', '=', arg('resource_id'))
    .orderBy('team_id'),
)
const teamsOfMany = statement<{ tenant: string; kind: string; ids: string }>('sharing.teamsOfMany')(
  (db, arg, { dialect, sql }) =>
    rawStatement<{ resource_id: string; team_id: string }>(
      sql`select resource_id, team_id from shared_with_teams
        where tenant = ${arg('tenant')} and kind = ${arg('kind')} and resource_id in (${
          dialect === 'postgres'
            ? sql`select json_array_elements_text(${arg('ids')}::text::json)`
            : sql`select value from json_each(${arg('ids')})`
        })
        order by resource_id, team_id`,
      db,
    ),
)
const forgetTeam = statement<{ tenant: string; team_id: string }>('sharing.forgetTeam')((db, arg) =>
  db.deleteFrom('shared_with_teams').where('tenant', '=', arg('tenant')).where('team_id', '=', arg('team_id')),
)

/** The teams of shared items. Stores of shared items use it within their own transaction. */
export const sharedTeams = {
  async replace(tx: WriteTx, tenant: TenantId, kind: SharedKind, id: string, teams: readonly string[]): Promise<void> {
    const session = writerOf(tx, tenant)
    await session.run(removeTeams, { tenant, kind, resource_id: id })
    for (const team of new Set(teams)) await session.run(addTeam, { tenant, kind, resource_id: id, team_id: team })
  },
  async of(tx: ReadTx, tenant: TenantId, kind: SharedKind, id: string): Promise<string[]> {
    return (await sessionOf(tx).all(teamsOf, { tenant, kind, resource_id: id })).map(({ team_id }) => team_id)
  },
  /** By id. Only rows of the scope `team` have teams; the others are omitted. */
  async ofRows(
    tx: ReadTx,
    tenant: TenantId,
    kind: SharedKind,
    rows: readonly Readonly<{ id: string; scope: string }>[],
  ): Promise<ReadonlyMap<string, readonly string[]>> {
    const ids = rows.filter(({ scope }) => scope === 'team').map(({ id }) => id)
    if (ids.length === 0) return new Map()
    const shared = await sessionOf(tx).all(teamsOfMany, { tenant, kind, ids: JSON.stringify(ids) })
    return new Map(
      [...Map.groupBy(shared, ({ resource_id }) => resource_id)].map(([id, found]) => [
        id,
        found.map(({ team_id }) => team_id),
      ]),
    )
  },
  /** For a removed team: nothing is shared with it any more. An operator may remove a team of another tenant. */
  async forgetTeam(tx: WriteTx, tenant: TenantId, team: string): Promise<void> {
    await sharedWriterOf(tx).run(forgetTeam, { tenant, team_id: team })
  },
}
