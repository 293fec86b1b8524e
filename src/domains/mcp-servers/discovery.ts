import { limits } from '../../contract/limits.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { canonicalJson, type Json } from '../../kernel/canonical-json.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Random } from '../../kernel/random.ts'
import { createTimeSlicer } from '../../kernel/time-slicer.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import type { CatalogItem, McpServerStore, NamedTool, StoredTool } from './ports.ts'
import type { ListedTool } from './runtime.ts'
import { toolName } from './tool-names.ts'

/**
 * Replaces the stored tools of an item by its server's list. A tool keeps its id and name while the server has it, even if it was
 * missing for a while. Returns whether anything changed.
 */
export async function storeToolList(
  { store, random, clock }: Readonly<{ store: McpServerStore; random: Random; clock: Clock }>,
  tx: WriteTx,
  item: CatalogItem,
  listed: readonly ListedTool[],
  nowMs: number,
): Promise<boolean> {
  const { tenant } = item
  const slicer = createTimeSlicer(clock, neverAborted)
  const taken = takenNames(await store.listToolNames(tx, tenant, item.slug))
  await slicer.pause()
  const known = new Map((await store.listTools(tx, tenant, item.id)).map((tool) => [tool.upstreamName, tool]))
  await slicer.pause()
  const changed: StoredTool[] = []
  const usable = listed.slice(0, limits.mcpToolsPerServerMax)
  for (const tool of usable) {
    const pause = slicer.pause()
    if (pause !== undefined) await pause
    const before = known.get(tool.name)
    const next = merged(item, before, tool, {
      newId: () => uuidOf(random.bytes(16)),
      newName: () => toolName(item, tool.name, (name) => taken.has(name)),
    })
    taken.add(next.name)
    if (before === undefined || !isSame(before, next)) changed.push(next)
  }
  const names = new Set(usable.map(({ name }) => name))
  const unlisted = [...known.values()].filter(({ upstreamName }) => !names.has(upstreamName))
  for (const tool of unlisted) if (tool.removedAtMs === null) changed.push({ ...tool, removedAtMs: nowMs })
  if (changed.length === 0) return false
  // A server that lists different tools each time would fill the store.
  const oldestFirst = unlisted.toSorted((one, other) => (one.removedAtMs ?? nowMs) - (other.removedAtMs ?? nowMs))
  const forgotten = new Set(
    oldestFirst.slice(0, Math.max(0, unlisted.length - limits.mcpRemovedToolsMax)).map(({ id }) => id),
  )
  const listVersion = await store.raiseVersion(tx, tenant)
  for (const tool of changed) {
    const pause = slicer.pause()
    if (pause !== undefined) await pause
    if (!forgotten.has(tool.id)) await store.putTool(tx, tenant, { ...tool, listVersion })
  }
  for (const id of forgotten) await store.deleteTool(tx, tenant, id)
  return true
}

/** Whether the store has exactly this list of the server. Other work runs in between. */
export async function hasToolList(
  { store, clock }: Readonly<{ store: McpServerStore; clock: Clock }>,
  tx: ReadTx,
  item: CatalogItem,
  listed: readonly ListedTool[],
): Promise<boolean> {
  const slicer = createTimeSlicer(clock, neverAborted)
  const stored = await store.listTools(tx, item.tenant, item.id)
  const known = new Map(
    stored.filter(({ removedAtMs }) => removedAtMs === null).map((tool) => [tool.upstreamName, tool]),
  )
  const usable = listed.slice(0, limits.mcpToolsPerServerMax)
  if (known.size !== usable.length) return false
  for (const tool of usable) {
    const pause = slicer.pause()
    if (pause !== undefined) await pause
    const before = known.get(tool.name)
    const keep = { newId: () => '', newName: () => '' }
    if (before === undefined || !isSame(before, merged(item, before, tool, keep))) return false
  }
  return true
}

/** A list may be very long: other work runs in between. */
const neverAborted = new AbortController().signal

const takenNames = (tools: readonly NamedTool[]): Set<string> =>
  new Set(tools.flatMap(({ name, aliases }) => [name, ...aliases]))

function merged(
  item: CatalogItem,
  before: StoredTool | undefined,
  tool: ListedTool,
  make: Readonly<{ newId(): string; newName(): string }>,
): StoredTool {
  return {
    tenant: item.tenant,
    id: before?.id ?? make.newId(),
    catalogId: item.id,
    upstreamName: tool.name,
    name: before?.name ?? make.newName(),
    aliases: before?.aliases ?? [],
    title: tool.title ?? null,
    description: (tool.description ?? '').slice(0, limits.mcpToolDescriptionCharsMax),
    inputSchema: tool.inputSchema,
    outputSchema: tool.outputSchema ?? null,
    annotations: tool.annotations ?? null,
    taskSupport: tool.taskSupport ?? null,
    listVersion: before?.listVersion ?? 0,
    removedAtMs: null,
  }
}

const isSame = (one: StoredTool, other: StoredTool): boolean =>
  canonicalJson(one as unknown as Json) === canonicalJson(other as unknown as Json)

/** After a rename of a server its tools get new names, and keep the old ones as aliases. */
export async function renameTools(store: McpServerStore, tx: WriteTx, item: CatalogItem): Promise<void> {
  const { tenant } = item
  const own = await store.listTools(tx, tenant, item.id)
  if (own.length === 0) return
  const names = await store.listToolNames(tx, tenant, item.slug)
  const taken = takenNames(names.filter(({ catalogId }) => catalogId !== item.id))
  const listVersion = await store.raiseVersion(tx, tenant)
  for (const tool of own) {
    const name = toolName(item, tool.upstreamName, (candidate) => taken.has(candidate))
    taken.add(name)
    if (name === tool.name) continue
    const aliases = [tool.name, ...tool.aliases].filter((alias) => alias !== name).slice(0, limits.mcpToolAliasesMax)
    await store.putTool(tx, tenant, { ...tool, name, aliases, listVersion })
  }
}
