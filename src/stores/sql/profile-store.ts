import type { Selectable } from 'kysely'
import { SYSTEM_TENANT, type TenantId } from '../../contract/principal.ts'
import type { Scope } from '../../contract/sharing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Profile, ProfileFilter, ProfileStore } from '../../domains/profiles/ports.ts'
import { nameKey } from '../../kernel/name-key.ts'
import type { ProfileTable } from './governance-schema.ts'
import { flag, json, rowMap } from './row-map.ts'
import { isVisible, sharedTeams, type ViewerArgs, viewerArgs } from './sharing.ts'
import { type Builder, statement, statementFamily } from './statements.ts'
import { ownWriterOf, sessionOf } from './tx.ts'

type ProfileRow = Selectable<ProfileTable>
type RowId = { tenant: string; id: string }

const savedColumns = [
  'name',
  'name_key',
  'slug',
  'description',
  'scope',
  'author',
  'icon',
  'labels',
  'system_prompt',
  'suggested_prompts',
  'exposure',
  'context_untrusted',
  'is_default',
  'updated_at',
] as const
const insertProfile = statement<ProfileRow>('profile-store.insertProfile')((db, _arg, { columns }) =>
  db.insertInto('profiles').values(columns(['tenant', 'id', 'kind', 'created_at', ...savedColumns])),
)
const saveProfile = statement<ProfileRow>('profile-store.saveProfile')((db, arg, { columns }) =>
  db.updateTable('profiles').set(columns(savedColumns)).where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const deleteProfile = statement<RowId>('profile-store.deleteProfile')((db, arg) =>
  db.deleteFrom('profiles').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const deleteSubAgents = statement<RowId>('profile-store.deleteSubAgents')((db, arg) =>
  db
    .deleteFrom('profile_sub_agents')
    .where('tenant', '=', arg('tenant'))
    .where((expression) =>
      expression.or([expression('profile_id', '=', arg('id')), expression('sub_agent_id', '=', arg('id'))]),
    ),
)
const deleteAssignments = statement<RowId>('profile-store.deleteAssignments')((db, arg) =>
  db.deleteFrom('tool_assignments').where('tenant', '=', arg('tenant')).where('profile_id', '=', arg('id')),
)
const findProfile = statement<RowId>('profile-store.findProfile')((db, arg) =>
  db.selectFrom('profiles').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
type Named = { tenant: string; kind: string; name_key: string; slug: string }
const findNamed = statement<Named>('profile-store.findNamed')((db, arg) =>
  db
    .selectFrom('profiles')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('kind', '=', arg('kind'))
    .where((expression) =>
      expression.or([expression('name_key', '=', arg('name_key')), expression('slug', '=', arg('slug'))]),
    )
    .orderBy('created_at')
    .orderBy('id'),
)

type ListArgs = ViewerArgs & { tenant: string; kind: string; part: string; limit: number; offset: number }

const listFamily = statementFamily<ListArgs, ProfileRow>(
  'profile-store.list',
  (shape): Builder<ListArgs, ProfileRow> =>
    (db, arg, kit) => {
      let query = db
        .selectFrom('profiles')
        .selectAll()
        .where('tenant', '=', arg('tenant'))
        .where('kind', '=', arg('kind'))
        .where(isVisible(arg, kit, 'profiles', 'profile'))
      if (shape === 'named') query = query.where(hasPart(arg('part'), kit))
      return query.orderBy('name_key').orderBy('id').limit(arg('limit')).offset(arg('offset'))
    },
  ['all', 'named'],
)
const countFamily = statementFamily<ListArgs, { count: number }>(
  'profile-store.count',
  (shape): Builder<ListArgs, { count: number }> =>
    (db, arg, kit) => {
      let query = db
        .selectFrom('profiles')
        .select((expression) => expression.fn.countAll<number>().as('count'))
        .where('tenant', '=', arg('tenant'))
        .where('kind', '=', arg('kind'))
        .where(isVisible(arg, kit, 'profiles', 'profile'))
      if (shape === 'named') query = query.where(hasPart(arg('part'), kit))
      return query
    },
  ['all', 'named'],
)
const hasPart = (part: string, { dialect, sql }: Parameters<typeof isVisible>[1]) =>
  dialect === 'postgres'
    ? sql<boolean>`position(${part}::text in profiles.name_key) > 0`
    : sql<boolean>`instr(profiles.name_key, ${part}) > 0`

const countOf = statement<{ tenant: string; kind: string }>('profile-store.countOf')((db, arg) =>
  db
    .selectFrom('profiles')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where('kind', '=', arg('kind')),
)
const countBy = statement<{ tenant: string; kind: string; author: string }>('profile-store.countBy')((db, arg) =>
  db
    .selectFrom('profiles')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where('kind', '=', arg('kind'))
    .where('author', '=', arg('author')),
)

type SubAgentArgs = { tenant: string; profile_id: string; sub_agent_id: string; added_at: number }
const addSubAgent = statement<SubAgentArgs>('profile-store.addSubAgent')((db, _arg, { columns }) =>
  db
    .insertInto('profile_sub_agents')
    .values(columns(['tenant', 'profile_id', 'sub_agent_id', 'added_at']))
    .onConflict((conflict) => conflict.columns(['tenant', 'profile_id', 'sub_agent_id']).doNothing()),
)
const subAgentsOf = statement<RowId>('profile-store.subAgentsOf')((db, arg) =>
  db
    .selectFrom('profile_sub_agents')
    .select('sub_agent_id')
    .where('tenant', '=', arg('tenant'))
    .where('profile_id', '=', arg('id'))
    .orderBy('added_at')
    .orderBy('sub_agent_id'),
)

export const sqlProfileStore: ProfileStore = {
  async insertProfile(tx, tenant, profile) {
    await ownWriterOf(tx, tenant).run(insertProfile, toRow(tenant, profile))
    await saveTeams(tx, tenant, profile)
  },
  async saveProfile(tx, tenant, profile) {
    await ownWriterOf(tx, tenant).run(saveProfile, toRow(tenant, profile))
    await saveTeams(tx, tenant, profile)
  },
  async deleteProfile(tx, tenant, id) {
    const session = ownWriterOf(tx, tenant)
    await session.run(deleteSubAgents, { tenant, id })
    await session.run(deleteAssignments, { tenant, id })
    if (tenant !== SYSTEM_TENANT) await sharedTeams.replace(tx, tenant, 'profile', id, [])
    await session.run(deleteProfile, { tenant, id })
  },
  async findProfile(tx, tenant, id) {
    const row = await sessionOf(tx).get(findProfile, { tenant, id })
    return row === undefined ? undefined : (await fromRows(tx, tenant, [row]))[0]
  },
  async findNamed(tx, tenant, kind, name) {
    const args = { tenant, kind, name_key: nameKey(name), slug: name }
    return await fromRows(tx, tenant, await sessionOf(tx).all(findNamed, args))
  },
  async listProfiles(tx, tenant, filter, page) {
    const rows = await sessionOf(tx).all(listFamily(shapeOf(filter)), { ...filterArgs(tenant, filter), ...page })
    return await fromRows(tx, tenant, rows)
  },
  async countProfiles(tx, tenant, filter) {
    const args = { ...filterArgs(tenant, filter), limit: 0, offset: 0 }
    return (await sessionOf(tx).get(countFamily(shapeOf(filter)), args))?.count ?? 0
  },
  async countOf(tx, tenant, kind, author) {
    const session = sessionOf(tx)
    const row =
      author === undefined
        ? await session.get(countOf, { tenant, kind })
        : await session.get(countBy, { tenant, kind, author })
    return row?.count ?? 0
  },
  async addSubAgents(tx, tenant, profileId, subAgentIds, atMs) {
    for (const id of subAgentIds) {
      const row = { tenant, profile_id: profileId, sub_agent_id: id, added_at: atMs }
      await ownWriterOf(tx, tenant).run(addSubAgent, row)
    }
  },
  async subAgentsOf(tx, tenant, id) {
    return (await sessionOf(tx).all(subAgentsOf, { tenant, id })).map(({ sub_agent_id }) => sub_agent_id)
  },
}

const shapeOf = ({ name }: ProfileFilter): 'all' | 'named' => (name === undefined ? 'all' : 'named')

const filterArgs = (tenant: string, { kind, viewer, name }: ProfileFilter) => ({
  tenant,
  kind,
  part: name === undefined ? '' : nameKey(name),
  ...viewerArgs(viewer),
})

/** A profile that every tenant can see belongs to no team. */
async function saveTeams(tx: WriteTx, tenant: TenantId, { id, sharing }: Profile): Promise<void> {
  if (tenant !== SYSTEM_TENANT) await sharedTeams.replace(tx, tenant, 'profile', id, sharing.teams)
}

type OfSharing = 'scope' | 'author'
const profiles = rowMap<Omit<ProfileRow, 'name_key' | OfSharing>, Omit<Profile, 'sharing'>>()({
  tenant: 'tenant',
  id: 'id',
  kind: 'kind',
  name: 'name',
  slug: 'slug',
  description: 'description',
  icon: 'icon',
  labels: json('labels'),
  systemPrompt: 'system_prompt',
  suggestedPrompts: json('suggested_prompts'),
  exposure: 'exposure',
  contextUntrusted: flag('context_untrusted'),
  isDefault: flag('is_default'),
  createdAtMs: 'created_at',
  updatedAtMs: 'updated_at',
})
const toRow = (tenant: string, profile: Profile): ProfileRow => ({
  ...profiles.toRow(tenant, profile),
  name_key: nameKey(profile.name),
  scope: profile.sharing.scope,
  author: profile.sharing.author,
})

async function fromRows(tx: ReadTx, tenant: TenantId, rows: readonly ProfileRow[]): Promise<Profile[]> {
  const teams = await sharedTeams.ofRows(tx, tenant, 'profile', rows)
  return rows.map((row) => ({
    ...profiles.fromRow(row),
    sharing: { scope: row.scope as Scope, author: row.author, teams: teams.get(row.id) ?? [] },
  }))
}
