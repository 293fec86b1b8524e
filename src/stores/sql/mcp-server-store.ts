import type { Selectable } from 'kysely'
import { tenantId } from '../../contract/principal.ts'
import type { Scope } from '../../contract/sharing.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { CatalogItem, Deployment, McpServerStore, ServerType } from '../../domains/mcp-servers/ports.ts'
import type { ServerConfig } from '../../domains/mcp-servers/rules.ts'
import { nameKey } from '../../kernel/name-key.ts'
import type { McpCatalogItemTable, McpDeploymentTable } from './governance-schema.ts'
import { toolLists } from './mcp-tool-lists.ts'
import { mcpTools } from './mcp-tool-rows.ts'
import { json, rowMap } from './row-map.ts'
import { sharedTeams } from './sharing.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type ItemRow = Selectable<McpCatalogItemTable>
type DeploymentRow = Selectable<McpDeploymentTable>
type RowId = { tenant: string; id: string }

const savedItemColumns = ['name', 'name_key', 'slug', 'scope', 'about', 'server_type', 'config', 'updated_at'] as const
const insertItem = statement<ItemRow>('mcp-server-store.insertItem')((db, _arg, { columns }) =>
  db.insertInto('mcp_catalog_items').values(columns(['tenant', 'id', 'author', 'created_at', ...savedItemColumns])),
)
const saveItem = statement<ItemRow>('mcp-server-store.saveItem')((db, arg, { columns }) =>
  db
    .updateTable('mcp_catalog_items')
    .set(columns(savedItemColumns))
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const deleteItem = statement<RowId>('mcp-server-store.deleteItem')((db, arg) =>
  db.deleteFrom('mcp_catalog_items').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findItem = statement<RowId>('mcp-server-store.findItem')((db, arg) =>
  db.selectFrom('mcp_catalog_items').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const listItems = statement<{ tenant: string }>('mcp-server-store.listItems')((db, arg) =>
  db.selectFrom('mcp_catalog_items').selectAll().where('tenant', '=', arg('tenant')).orderBy('name_key').orderBy('id'),
)
const savedDeploymentColumns = ['author', 'status', 'error', 'field_values', 'oauth_grant', 'updated_at'] as const
const insertDeployment = statement<DeploymentRow>('mcp-server-store.insertDeployment')((db, _arg, { columns }) =>
  db
    .insertInto('mcp_deployments')
    .values(
      columns(['tenant', 'id', 'catalog_id', 'scope', 'holder', 'tool_list', 'created_at', ...savedDeploymentColumns]),
    ),
)
const saveDeployment = statement<DeploymentRow>('mcp-server-store.saveDeployment')((db, arg, { columns }) =>
  db
    .updateTable('mcp_deployments')
    .set(columns(savedDeploymentColumns))
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const setToolList = statement<RowId & { tool_list: string }>('mcp-server-store.setToolList')((db, arg) =>
  db
    .updateTable('mcp_deployments')
    .set({ tool_list: arg('tool_list') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const deleteDeployment = statement<RowId>('mcp-server-store.deleteDeployment')((db, arg) =>
  db.deleteFrom('mcp_deployments').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findDeployment = statement<RowId>('mcp-server-store.findDeployment')((db, arg) =>
  db.selectFrom('mcp_deployments').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const listDeployments = statement<{ tenant: string }>('mcp-server-store.listDeployments')((db, arg) =>
  db.selectFrom('mcp_deployments').selectAll().where('tenant', '=', arg('tenant')).orderBy('created_at').orderBy('id'),
)
type OfItem = { tenant: string; catalog_id: string }
const listDeploymentsOf = statement<OfItem>('mcp-server-store.listDeploymentsOf')((db, arg) =>
  db
    .selectFrom('mcp_deployments')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('catalog_id', '=', arg('catalog_id'))
    .orderBy('created_at')
    .orderBy('id'),
)

export const sqlMcpServerStore: McpServerStore = {
  async insertItem(tx, tenant, item) {
    await writerOf(tx, tenant).run(insertItem, toItemRow(tenant, item))
    await sharedTeams.replace(tx, tenant, 'mcp_catalog_item', item.id, item.sharing.teams)
  },
  async saveItem(tx, tenant, item) {
    await writerOf(tx, tenant).run(saveItem, toItemRow(tenant, item))
    await sharedTeams.replace(tx, tenant, 'mcp_catalog_item', item.id, item.sharing.teams)
  },
  async deleteItem(tx, tenant, id) {
    for (const deployment of await sqlMcpServerStore.listDeployments(tx, tenant, id)) {
      await sqlMcpServerStore.deleteDeployment(tx, tenant, deployment.id)
    }
    await mcpTools.removeOf(tx, tenant, id)
    await sharedTeams.replace(tx, tenant, 'mcp_catalog_item', id, [])
    return (await writerOf(tx, tenant).run(deleteItem, { tenant, id })) > 0
  },
  async findItem(tx, tenant, id) {
    const row = await sessionOf(tx).get(findItem, { tenant, id })
    if (row === undefined) return undefined
    return fromItemRow(row, await sharedTeams.of(tx as ReadTx, tenant, 'mcp_catalog_item', id))
  },
  async listItems(tx, tenant) {
    const rows = await sessionOf(tx).all(listItems, { tenant })
    const teams = await sharedTeams.ofRows(tx as ReadTx, tenant, 'mcp_catalog_item', rows)
    return rows.map((row) => fromItemRow(row, teams.get(row.id) ?? []))
  },
  async insertDeployment(tx, tenant, deployment) {
    await writerOf(tx, tenant).run(insertDeployment, toDeploymentRow(tenant, deployment))
    await sharedTeams.replace(tx, tenant, 'mcp_deployment', deployment.id, deployment.sharing.teams)
  },
  async saveDeployment(tx, tenant, deployment) {
    await writerOf(tx, tenant).run(saveDeployment, toDeploymentRow(tenant, deployment))
  },
  async deleteDeployment(tx, tenant, id) {
    await sharedTeams.replace(tx, tenant, 'mcp_deployment', id, [])
    return (await writerOf(tx, tenant).run(deleteDeployment, { tenant, id })) > 0
  },
  async findDeployment(tx, tenant, id) {
    const row = await sessionOf(tx).get(findDeployment, { tenant, id })
    if (row === undefined) return undefined
    return fromDeploymentRow(row, await sharedTeams.of(tx as ReadTx, tenant, 'mcp_deployment', id))
  },
  async listDeployments(tx, tenant, catalogId) {
    const session = sessionOf(tx)
    const rows = await (catalogId === undefined
      ? session.all(listDeployments, { tenant })
      : session.all(listDeploymentsOf, { tenant, catalog_id: catalogId }))
    const teams = await sharedTeams.ofRows(tx as ReadTx, tenant, 'mcp_deployment', rows)
    return rows.map((row) => fromDeploymentRow(row, teams.get(row.id) ?? []))
  },
  async setToolList(tx, tenant, id, tool_list) {
    await writerOf(tx, tenant).run(setToolList, { tenant, id, tool_list })
  },
  putToolList: toolLists.putList,
  deleteToolList: toolLists.removeList,
  findToolList: toolLists.findList,
  toolLists: toolLists.listsOf,
  putDefinition: toolLists.putDefinition,
  deleteDefinition: toolLists.removeDefinition,
  findDefinition: toolLists.findDefinition,
  definitions: toolLists.definitionsOf,
  definitionDigests: toolLists.digestsOf,
  putTool: mcpTools.put,
  deleteTool: mcpTools.remove,
  findTool: mcpTools.find,
  listTools: mcpTools.list,
  listToolNames: mcpTools.listNames,
  toolListMarks: mcpTools.marks,
  raiseVersion: mcpTools.raiseVersion,
  versions: mcpTools.versions,
}

type About = Omit<
  CatalogItem,
  'tenant' | 'id' | 'name' | 'slug' | 'sharing' | 'serverType' | 'config' | 'createdAtMs' | 'updatedAtMs'
>

function toItemRow(tenant: string, item: CatalogItem): ItemRow {
  const about: About = {
    description: item.description,
    icon: item.icon,
    docsUrl: item.docsUrl,
    repository: item.repository,
    version: item.version,
    instructions: item.instructions,
    labels: item.labels,
    environmentId: item.environmentId,
  }
  return {
    tenant,
    id: item.id,
    name: item.name,
    name_key: nameKey(item.name),
    slug: item.slug,
    scope: item.sharing.scope,
    author: item.sharing.author,
    about: JSON.stringify(about),
    server_type: item.serverType,
    config: JSON.stringify(item.config),
    created_at: item.createdAtMs,
    updated_at: item.updatedAtMs,
  }
}

const fromItemRow = (row: ItemRow, teams: readonly string[]): CatalogItem => ({
  tenant: tenantId(row.tenant),
  id: row.id,
  name: row.name,
  slug: row.slug,
  sharing: { scope: row.scope as Scope, author: row.author, teams },
  ...(JSON.parse(row.about) as About),
  serverType: row.server_type as ServerType,
  config: JSON.parse(row.config) as ServerConfig,
  createdAtMs: row.created_at,
  updatedAtMs: row.updated_at,
})

/** What a catalogue item can have only once: a deployment of each author, of each team, and of the organisation. */
function holderOf({ sharing }: Deployment): string {
  if (sharing.scope === 'personal') return sharing.author
  return sharing.scope === 'team' ? (sharing.teams[0] ?? '') : ''
}

const deployments = rowMap<Omit<DeploymentRow, 'scope' | 'author' | 'holder'>, Omit<Deployment, 'sharing'>>()({
  tenant: 'tenant',
  id: 'id',
  catalogId: 'catalog_id',
  status: 'status',
  error: 'error',
  values: json('field_values'),
  grant: 'oauth_grant',
  toolList: 'tool_list',
  createdAtMs: 'created_at',
  updatedAtMs: 'updated_at',
})
const toDeploymentRow = (tenant: string, deployment: Deployment): DeploymentRow => ({
  ...deployments.toRow(tenant, deployment),
  scope: deployment.sharing.scope,
  author: deployment.sharing.author,
  holder: holderOf(deployment),
})
const fromDeploymentRow = (row: DeploymentRow, teams: readonly string[]): Deployment => ({
  ...deployments.fromRow(row),
  sharing: { scope: row.scope as Scope, author: row.author, teams },
})
