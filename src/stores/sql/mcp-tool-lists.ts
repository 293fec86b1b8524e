import type { Selectable } from 'kysely'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { ToolDefinition, ToolList } from '../../domains/mcp-servers/ports.ts'
import type { McpToolDefinitionTable, McpToolListTable } from './governance-schema.ts'
import { json, jsonOrNull, rowMap } from './row-map.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type ListRow = Selectable<McpToolListTable>
type DefinitionRow = Selectable<McpToolDefinitionTable>
type OfItem = Pick<ListRow, 'tenant' | 'catalog_id'>
type ListId = Pick<ListRow, 'tenant' | 'catalog_id' | 'id'>
type DefinitionId = Pick<DefinitionRow, 'tenant' | 'catalog_id' | 'digest'>

const definitions = rowMap<Omit<DefinitionRow, 'catalog_id' | 'digest'>, ToolDefinition>()({
  title: 'title',
  description: 'description',
  inputSchema: json('input_schema'),
  outputSchema: jsonOrNull('output_schema'),
  annotations: jsonOrNull('annotations'),
  taskSupport: 'task_support',
})

const putList = statement<ListRow>('mcp-tool-lists.putList')((db, _arg, { columns }) =>
  db
    .insertInto('mcp_tool_lists')
    .values(columns(['tenant', 'catalog_id', 'id', 'tools']))
    .onConflict((conflict) => conflict.columns(['tenant', 'catalog_id', 'id']).doNothing()),
)
const deleteList = statement<ListId>('mcp-tool-lists.deleteList')((db, arg) =>
  db
    .deleteFrom('mcp_tool_lists')
    .where('tenant', '=', arg('tenant'))
    .where('catalog_id', '=', arg('catalog_id'))
    .where('id', '=', arg('id')),
)
const findList = statement<ListId>('mcp-tool-lists.findList')((db, arg) =>
  db
    .selectFrom('mcp_tool_lists')
    .select('tools')
    .where('tenant', '=', arg('tenant'))
    .where('catalog_id', '=', arg('catalog_id'))
    .where('id', '=', arg('id')),
)
const listsOf = statement<OfItem>('mcp-tool-lists.listsOf')((db, arg) =>
  db
    .selectFrom('mcp_tool_lists')
    .select(['id', 'tools'])
    .where('tenant', '=', arg('tenant'))
    .where('catalog_id', '=', arg('catalog_id')),
)
const deleteListsOf = statement<OfItem>('mcp-tool-lists.deleteListsOf')((db, arg) =>
  db.deleteFrom('mcp_tool_lists').where('tenant', '=', arg('tenant')).where('catalog_id', '=', arg('catalog_id')),
)
const putDefinition = statement<DefinitionRow>('mcp-tool-lists.putDefinition')((db, _arg, { columns }) =>
  db
    .insertInto('mcp_tool_definitions')
    .values(columns([...definitions.columns, 'catalog_id', 'digest']))
    .onConflict((conflict) => conflict.columns(['tenant', 'catalog_id', 'digest']).doNothing()),
)
const deleteDefinition = statement<DefinitionId>('mcp-tool-lists.deleteDefinition')((db, arg) =>
  db
    .deleteFrom('mcp_tool_definitions')
    .where('tenant', '=', arg('tenant'))
    .where('catalog_id', '=', arg('catalog_id'))
    .where('digest', '=', arg('digest')),
)
const findDefinition = statement<DefinitionId>('mcp-tool-lists.findDefinition')((db, arg) =>
  db
    .selectFrom('mcp_tool_definitions')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('catalog_id', '=', arg('catalog_id'))
    .where('digest', '=', arg('digest')),
)
const definitionsOf = statement<OfItem>('mcp-tool-lists.definitionsOf')((db, arg) =>
  db
    .selectFrom('mcp_tool_definitions')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('catalog_id', '=', arg('catalog_id')),
)
const digestsOf = statement<OfItem>('mcp-tool-lists.digestsOf')((db, arg) =>
  db
    .selectFrom('mcp_tool_definitions')
    .select('digest')
    .where('tenant', '=', arg('tenant'))
    .where('catalog_id', '=', arg('catalog_id')),
)
const deleteDefinitionsOf = statement<OfItem>('mcp-tool-lists.deleteDefinitionsOf')((db, arg) =>
  db.deleteFrom('mcp_tool_definitions').where('tenant', '=', arg('tenant')).where('catalog_id', '=', arg('catalog_id')),
)

const listIn = (tools: string): ToolList => new Map(Object.entries(JSON.parse(tools) as Record<string, string>))

/** What the deployments of MCP servers list. Lists and definitions never change: others have another id or digest. */
export const toolLists = {
  async putList(tx: WriteTx, tenant: TenantId, catalog_id: string, id: string, list: ToolList): Promise<void> {
    const tools = JSON.stringify(Object.fromEntries(list))
    await writerOf(tx, tenant).run(putList, { tenant, catalog_id, id, tools })
  },
  async removeList(tx: WriteTx, tenant: TenantId, catalog_id: string, id: string): Promise<void> {
    await writerOf(tx, tenant).run(deleteList, { tenant, catalog_id, id })
  },
  async findList(
    tx: ReadTx | WriteTx,
    tenant: TenantId,
    catalog_id: string,
    id: string,
  ): Promise<ToolList | undefined> {
    const row = await sessionOf(tx).get(findList, { tenant, catalog_id, id })
    return row && listIn(row.tools)
  },
  async listsOf(tx: ReadTx | WriteTx, tenant: TenantId, catalog_id: string): Promise<ReadonlyMap<string, ToolList>> {
    const rows = await sessionOf(tx).all(listsOf, { tenant, catalog_id })
    return new Map(rows.map(({ id, tools }) => [id, listIn(tools)]))
  },
  async putDefinition(
    tx: WriteTx,
    tenant: TenantId,
    catalog_id: string,
    digest: string,
    definition: ToolDefinition,
  ): Promise<void> {
    const row = { ...definitions.toRow(tenant, definition), catalog_id, digest }
    await writerOf(tx, tenant).run(putDefinition, row)
  },
  async removeDefinition(tx: WriteTx, tenant: TenantId, catalog_id: string, digest: string): Promise<void> {
    await writerOf(tx, tenant).run(deleteDefinition, { tenant, catalog_id, digest })
  },
  async findDefinition(
    tx: ReadTx | WriteTx,
    tenant: TenantId,
    catalog_id: string,
    digest: string,
  ): Promise<ToolDefinition | undefined> {
    return definitions.found(await sessionOf(tx).get(findDefinition, { tenant, catalog_id, digest }))
  },
  async definitionsOf(
    tx: ReadTx | WriteTx,
    tenant: TenantId,
    catalog_id: string,
  ): Promise<ReadonlyMap<string, ToolDefinition>> {
    const rows = await sessionOf(tx).all(definitionsOf, { tenant, catalog_id })
    return new Map(rows.map((row) => [row.digest, definitions.fromRow(row)]))
  },
  async digestsOf(tx: ReadTx | WriteTx, tenant: TenantId, catalog_id: string): Promise<ReadonlySet<string>> {
    return new Set((await sessionOf(tx).all(digestsOf, { tenant, catalog_id })).map(({ digest }) => digest))
  },
  async removeOf(tx: WriteTx, tenant: TenantId, catalog_id: string): Promise<void> {
    const session = writerOf(tx, tenant)
    await session.run(deleteListsOf, { tenant, catalog_id })
    await session.run(deleteDefinitionsOf, { tenant, catalog_id })
  },
}
