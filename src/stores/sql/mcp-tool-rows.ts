import type { Selectable } from 'kysely'
import { type TenantId, tenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { NamedTool, StoredTool } from '../../domains/mcp-servers/ports.ts'
import type { McpToolTable } from './governance-schema.ts'
import { toolLists } from './mcp-tool-lists.ts'
import { json, rowMap } from './row-map.ts'
import { statement } from './statements.ts'
import { ownWriterOf, sessionOf, writerOf } from './tx.ts'

type ToolRow = Selectable<McpToolTable>

const none: readonly string[] = []
const namesIn = (aliases: string): readonly string[] => (aliases === '[]' ? none : (JSON.parse(aliases) as string[]))

const tools = rowMap<ToolRow, StoredTool>()({
  tenant: 'tenant',
  id: 'id',
  catalogId: 'catalog_id',
  upstreamName: 'upstream_name',
  name: 'name',
  aliases: { ...json('aliases'), read: namesIn },
  listVersion: 'list_version',
  removedAtMs: 'removed_at',
})

const listedColumns = ['name', 'aliases', 'list_version', 'removed_at'] as const
const putTool = statement<ToolRow>('mcp-tool-rows.putTool')((db, _arg, { columns }) =>
  db
    .insertInto('mcp_tools')
    .values(columns(tools.columns))
    .onConflict((conflict) => conflict.columns(['tenant', 'id']).doUpdateSet(columns(listedColumns))),
)
const findTool = statement<{ tenant: string; id: string }>('mcp-tool-rows.findTool')((db, arg) =>
  db.selectFrom('mcp_tools').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const listTools = statement<{ tenant: string }>('mcp-tool-rows.listTools')((db, arg) =>
  db.selectFrom('mcp_tools').selectAll().where('tenant', '=', arg('tenant')).orderBy('name').orderBy('id'),
)
const listToolNames = statement<{ tenant: string }>('mcp-tool-rows.listToolNames')((db, arg) =>
  db
    .selectFrom('mcp_tools')
    .select(['id', 'catalog_id', 'name', 'aliases'])
    .where('tenant', '=', arg('tenant'))
    .orderBy('name')
    .orderBy('id'),
)
const listMarks = statement<{ tenant: string }>('mcp-tool-rows.listMarks')((db, arg) =>
  db
    .selectFrom('mcp_tools')
    .select(({ fn }) => ['catalog_id', fn.max('list_version').as('version'), fn.countAll<number>().as('count')])
    .where('tenant', '=', arg('tenant'))
    .groupBy('catalog_id'),
)
type OfItem = { tenant: string; catalog_id: string }
const listToolsOf = statement<OfItem>('mcp-tool-rows.listToolsOf')((db, arg) =>
  db
    .selectFrom('mcp_tools')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('catalog_id', '=', arg('catalog_id'))
    .orderBy('name')
    .orderBy('id'),
)
const deleteToolsOf = statement<OfItem>('mcp-tool-rows.deleteToolsOf')((db, arg) =>
  db.deleteFrom('mcp_tools').where('tenant', '=', arg('tenant')).where('catalog_id', '=', arg('catalog_id')),
)
const deleteAssignmentsOf = statement<OfItem>('mcp-tool-rows.deleteAssignmentsOf')((db, arg) =>
  db
    .deleteFrom('tool_assignments')
    .where('tenant', '=', arg('tenant'))
    .where('tool_id', 'in', (expression) =>
      expression
        .selectFrom('mcp_tools')
        .select('mcp_tools.id')
        .where('mcp_tools.tenant', '=', arg('tenant'))
        .where('mcp_tools.catalog_id', '=', arg('catalog_id')),
    ),
)
const deleteTool = statement<{ tenant: string; id: string }>('mcp-tool-rows.deleteTool')((db, arg) =>
  db.deleteFrom('mcp_tools').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const deleteToolAssignments = statement<{ tenant: string; id: string }>('mcp-tool-rows.deleteToolAssignments')(
  (db, arg) => db.deleteFrom('tool_assignments').where('tenant', '=', arg('tenant')).where('tool_id', '=', arg('id')),
)
const raiseVersion = statement<{ tenant: string }>('mcp-tool-rows.raiseVersion')((db, arg) =>
  db
    .insertInto('mcp_tool_versions')
    .values({ tenant: arg('tenant'), version: 1 })
    .onConflict((conflict) =>
      conflict
        .column('tenant')
        .doUpdateSet((expression) => ({ version: expression('mcp_tool_versions.version', '+', 1) })),
    ),
)
const findVersion = statement<{ tenant: string }>('mcp-tool-rows.findVersion')((db, arg) =>
  db.selectFrom('mcp_tool_versions').select('version').where('tenant', '=', arg('tenant')),
)
const listVersions = statement<Record<never, never>>('mcp-tool-rows.listVersions')((db) =>
  db.selectFrom('mcp_tool_versions').select(['tenant', 'version']),
)

/** The stored tools of MCP servers, and version numbers that show when they changed. */
export const mcpTools = {
  async put(tx: WriteTx, tenant: TenantId, tool: StoredTool): Promise<void> {
    await writerOf(tx, tenant).run(putTool, tools.toRow(tenant, tool))
  },
  async find(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<StoredTool | undefined> {
    return tools.found(await sessionOf(tx).get(findTool, { tenant, id }))
  },
  async list(tx: ReadTx | WriteTx, tenant: TenantId, catalogId?: string): Promise<StoredTool[]> {
    const session = sessionOf(tx)
    const rows = await (catalogId === undefined
      ? session.all(listTools, { tenant })
      : session.all(listToolsOf, { tenant, catalog_id: catalogId }))
    return rows.map(tools.fromRow)
  },
  async listNames(tx: ReadTx | WriteTx, tenant: TenantId): Promise<NamedTool[]> {
    const rows = await sessionOf(tx).all(listToolNames, { tenant })
    return rows.map(({ id, catalog_id, name, aliases }) => ({
      id,
      catalogId: catalog_id,
      name,
      aliases: namesIn(aliases),
    }))
  },
  async marks(tx: ReadTx, tenant: TenantId): Promise<ReadonlyMap<string, string>> {
    const rows = await sessionOf(tx).all(listMarks, { tenant })
    return new Map(rows.map(({ catalog_id, version, count }) => [catalog_id, `${version}/${count}`]))
  },
  async remove(tx: WriteTx, tenant: TenantId, id: string): Promise<void> {
    const session = writerOf(tx, tenant)
    await session.run(deleteToolAssignments, { tenant, id })
    await session.run(deleteTool, { tenant, id })
  },
  async removeOf(tx: WriteTx, tenant: TenantId, catalogId: string): Promise<void> {
    const session = writerOf(tx, tenant)
    await toolLists.removeOf(tx, tenant, catalogId)
    await session.run(deleteAssignmentsOf, { tenant, catalog_id: catalogId })
    await session.run(deleteToolsOf, { tenant, catalog_id: catalogId })
  },
  async raiseVersion(tx: WriteTx, tenant: TenantId): Promise<number> {
    await ownWriterOf(tx, tenant).run(raiseVersion, { tenant })
    return (await sessionOf(tx).get(findVersion, { tenant }))!.version
  },
  async versions(tx: ReadTx): Promise<ReadonlyMap<TenantId, number>> {
    const rows = await sessionOf(tx).all(listVersions, {})
    return new Map(rows.map(({ tenant, version }) => [tenantId(tenant), version]))
  },
}
