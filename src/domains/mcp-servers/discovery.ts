import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { canonicalJson, NotCanonicalError } from '../../kernel/canonical-json.ts'
import type { Clock } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Random } from '../../kernel/random.ts'
import { createTimeSlicer } from '../../kernel/time-slicer.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import type { CatalogItem, Deployment, McpServerStore, NamedTool, StoredTool, ToolDefinition } from './ports.ts'
import type { ListedTool } from './runtime.ts'
import { toolName } from './tool-names.ts'

type DiscoveryParts = Readonly<{ store: McpServerStore; random: Random; clock: Clock }>

/**
 * Stores what the server of a deployment lists for its credentials. What other deployments list stays. A tool keeps its id and name
 * while a deployment lists it, even if it was missing for a while. Returns whether anything changed.
 */
export async function storeToolList(
  { store, random, clock }: DiscoveryParts,
  tx: WriteTx,
  item: CatalogItem,
  deployment: Pick<Deployment, 'id' | 'toolList'>,
  listed: readonly ListedTool[],
  nowMs: number,
): Promise<boolean> {
  const { tenant } = item
  const slicer = createTimeSlicer(clock, neverAborted)
  const own = await store.listTools(tx, tenant, item.id)
  const taken = takenNames(own)
  const known = new Map(own.map((tool) => [tool.upstreamName, tool]))
  const digests = await store.definitionDigests(tx, tenant, item.id)
  await slicer.pause()
  const changed: StoredTool[] = []
  const list = new Map<string, string>()
  for (const tool of usable(listed)) {
    const pause = slicer.pause()
    if (pause !== undefined) await pause
    const before = known.get(tool.name)
    const now: StoredTool =
      before === undefined
        ? newTool(item, tool.name, uuidOf(random.bytes(16)), (name) => taken.has(name))
        : { ...before, removedAtMs: null }
    taken.add(now.name)
    if (before?.removedAtMs !== null) changed.push(now)
    const definition = definitionOf(tool)
    const digest = digestOf(definition)
    list.set(now.id, digest)
    if (!digests.has(digest)) await store.putDefinition(tx, tenant, item.id, digest, definition)
  }
  const listId = listIdOf(list)
  if (changed.length === 0 && listId === deployment.toolList) return false
  const listVersion = await store.raiseVersion(tx, tenant)
  for (const tool of changed) {
    const pause = slicer.pause()
    if (pause !== undefined) await pause
    await store.putTool(tx, tenant, { ...tool, listVersion })
  }
  await store.putToolList(tx, tenant, item.id, listId, list)
  await store.setToolList(tx, tenant, deployment.id, listId)
  await forgetUnlisted({ store, clock }, tx, tenant, item.id, nowMs)
  return true
}

/**
 * After a deployment of the server has another list, or is gone: removes the tools that no deployment lists any more, and the lists
 * and definitions that none uses.
 */
export async function forgetUnlisted(
  { store, clock }: Pick<DiscoveryParts, 'store' | 'clock'>,
  tx: WriteTx,
  tenant: TenantId,
  catalogId: string,
  nowMs: number,
): Promise<void> {
  const slicer = createTimeSlicer(clock, neverAborted)
  const used = new Set((await store.listDeployments(tx, tenant, catalogId)).map(({ toolList }) => toolList))
  const listedIds = new Set<string>()
  const digests = new Set<string>()
  for (const [id, list] of await store.toolLists(tx, tenant, catalogId)) {
    await slicer.pause()
    if (!used.has(id)) {
      await store.deleteToolList(tx, tenant, catalogId, id)
      continue
    }
    for (const [toolId, digest] of list) {
      listedIds.add(toolId)
      digests.add(digest)
    }
  }
  for (const digest of await store.definitionDigests(tx, tenant, catalogId)) {
    const pause = slicer.pause()
    if (pause !== undefined) await pause
    if (!digests.has(digest)) await store.deleteDefinition(tx, tenant, catalogId, digest)
  }
  const unlisted = (await store.listTools(tx, tenant, catalogId)).filter(({ id }) => !listedIds.has(id))
  if (unlisted.length === 0) return
  // A server that lists different tools each time would fill the store.
  const oldestFirst = unlisted.toSorted((one, other) => (one.removedAtMs ?? nowMs) - (other.removedAtMs ?? nowMs))
  const excess = Math.max(0, unlisted.length - limits.mcpRemovedToolsMax)
  const listVersion = await store.raiseVersion(tx, tenant)
  for (const [index, tool] of oldestFirst.entries()) {
    const pause = slicer.pause()
    if (pause !== undefined) await pause
    if (index < excess) await store.deleteTool(tx, tenant, tool.id)
    else if (tool.removedAtMs === null) await store.putTool(tx, tenant, { ...tool, removedAtMs: nowMs, listVersion })
  }
}

/** Whether the store has exactly this list of the deployment. Other work runs in between. */
export async function hasToolList(
  { store, clock }: Pick<DiscoveryParts, 'store' | 'clock'>,
  tx: ReadTx,
  item: CatalogItem,
  deployment: Pick<Deployment, 'toolList'>,
  listed: readonly ListedTool[],
): Promise<boolean> {
  const slicer = createTimeSlicer(clock, neverAborted)
  const known = new Map((await store.listTools(tx, item.tenant, item.id)).map((tool) => [tool.upstreamName, tool.id]))
  const list = new Map<string, string>()
  for (const tool of usable(listed)) {
    const pause = slicer.pause()
    if (pause !== undefined) await pause
    const id = known.get(tool.name)
    if (id === undefined) return false
    list.set(id, digestOf(definitionOf(tool)))
  }
  return listIdOf(list) === deployment.toolList
}

/** A list may be very long: other work runs in between. */
const neverAborted = new AbortController().signal

/** Of several tools with one name the last counts. */
const usable = (listed: readonly ListedTool[]): readonly ListedTool[] => [
  ...new Map(listed.slice(0, limits.mcpToolsPerServerMax).map((tool) => [tool.name, tool])).values(),
]

/** A name is taken only within one server: between servers, each view decides. */
const takenNames = (tools: readonly NamedTool[]): Set<string> =>
  new Set(tools.flatMap(({ name, aliases }) => [name, ...aliases]))

const newTool = (
  item: CatalogItem,
  upstreamName: string,
  id: string,
  isTaken: (name: string) => boolean,
): StoredTool => ({
  tenant: item.tenant,
  id,
  catalogId: item.id,
  upstreamName,
  name: toolName(item, upstreamName, isTaken),
  aliases: [],
  listVersion: 0,
  removedAtMs: null,
})

const definitionOf = (tool: ListedTool): ToolDefinition => ({
  title: tool.title === undefined ? null : storable(tool.title),
  description: storable((tool.description ?? '').slice(0, limits.mcpToolDescriptionCharsMax)),
  inputSchema: tool.inputSchema,
  outputSchema: tool.outputSchema ?? null,
  annotations: tool.annotations ?? null,
  taskSupport: tool.taskSupport ?? null,
})

/** No store keeps half of a character, and PostgreSQL no U+0000. */
const storable = (text: string): string => text.replaceAll('\u0000', '\ufffd').toWellFormed()

const digestOf = (value: unknown): string => sha256Hex(canonicalText(value)).slice(0, DIGEST_CHARACTERS)
const DIGEST_CHARACTERS = 32

/** What has no canonical form, such as half of a character that a server cut off, counts as it is written. */
function canonicalText(value: unknown): string {
  try {
    return canonicalJson(value)
  } catch (error) {
    if (error instanceof NotCanonicalError) return JSON.stringify(value)
    throw error
  }
}

/** The same for the same tools in any order. */
const listIdOf = (list: ReadonlyMap<string, string>): string =>
  digestOf([...list].sort(([one], [other]) => (one < other ? -1 : 1)))

/** After a rename of a server its tools get new names, and keep the old ones as aliases. */
export async function renameTools(store: McpServerStore, tx: WriteTx, item: CatalogItem): Promise<void> {
  const { tenant } = item
  const own = await store.listTools(tx, tenant, item.id)
  if (own.length === 0) return
  const taken = new Set<string>()
  const listVersion = await store.raiseVersion(tx, tenant)
  for (const tool of own) {
    const name = toolName(item, tool.upstreamName, (candidate) => taken.has(candidate))
    taken.add(name)
    if (name === tool.name) continue
    const aliases = [tool.name, ...tool.aliases].filter((alias) => alias !== name).slice(0, limits.mcpToolAliasesMax)
    await store.putTool(tx, tenant, { ...tool, name, aliases, listVersion })
  }
}
