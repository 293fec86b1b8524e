import type { Embedder } from '../../contract/embedder.ts'
import { limits } from '../../contract/limits.ts'
import { permissionsKey } from '../../contract/permissions.ts'
import type { Principal } from '../../contract/principal.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import { createTimeSlicer } from '../../kernel/time-slicer.ts'
import { withTimeout } from '../../kernel/with-timeout.ts'
import type { CatalogTool } from './catalog.ts'
import {
  buildToolIndexInSlices,
  type RankedNames,
  type SearchableTool,
  type ToolIndex,
  toolKey,
} from './search/tool-index.ts'
import type { KnownVectors } from './search/tool-vectors.ts'
import type { ToolSearch } from './services.ts'
import { isVisible, type Mode } from './stages.ts'
import type { ToolCaller } from './tool-host.ts'
import type { ToolView, ToolViews } from './tool-views.ts'

type ToolSearchDeps = Readonly<{
  views: ToolViews
  mode: Mode
  /** Undefined without a model: then words decide. */
  embedder(): Embedder | undefined
  clock: Clock
  logger: Logger
}>

type Understood = Readonly<{ queryVector?: Float32Array | undefined; index?: ToolIndex; hint?: string }>
type Corpus = ToolView['corpus']

const noVector: Understood = {}
const noModel =
  'No model for semantic search is available (search.local_model, search.embeddings), so these are keyword matches.'
const noAnswer = 'The model for semantic search did not answer, so these are keyword matches.'
const tooMany = 'There are too many tools for semantic search, so these are keyword matches.'
const neverAborted = new AbortController().signal

export type ToolSearches = Readonly<{
  search: ToolSearch
  /** The same ranking for the named tools, in another form. `warning` says why meaning was not used. */
  rank(
    principal: Principal,
    request: Readonly<{ query: string; isAmong(name: string): boolean }>,
    signal: AbortSignal,
  ): Promise<RankedNames & Readonly<{ warning?: string }>>
}>

/**
 * Search over the tools that one principal may use. All callers of a tenant share an index, which is built on the first search
 * after its tools changed, in slices that let other work run.
 */
export function createToolSearch({ views, mode, embedder, clock, logger }: ToolSearchDeps): ToolSearches {
  const byWords = new WeakMap<Corpus, Promise<ToolIndex>>()
  const byMeaning = new WeakMap<Corpus, Promise<ToolIndex>>()
  const knownVectors: KnownVectors = new Map()
  const visibleKeys = new WeakMap<ToolView, Map<string, Promise<ReadonlySet<string>>>>()

  function made(
    indexes: WeakMap<Corpus, Promise<ToolIndex>>,
    corpus: Corpus,
    make: () => Promise<ToolIndex>,
  ): Promise<ToolIndex> {
    let index = indexes.get(corpus)
    if (index === undefined) {
      index = make().catch((error: unknown) => {
        indexes.delete(corpus)
        throw error
      })
      indexes.set(corpus, index)
    }
    return index
  }

  async function understood(corpus: Corpus, query: string, signal: AbortSignal): Promise<Understood> {
    const model = embedder()
    if (model === undefined) return { hint: noModel }
    if (corpus.length > limits.toolsWithVectorsMax) return { hint: tooMany }
    try {
      const patience = withTimeout(signal, limits.toolSearchModelMs)
      const [[queryVector], index] = await Promise.race([
        Promise.all([
          model.embed([query], patience),
          made(byMeaning, corpus, () => indexWithVectors(corpus, model, clock, knownVectors)),
        ]),
        endOf(patience),
      ])
      return { queryVector, index }
    } catch (error) {
      if (signal.aborted) throw error
      logger.warn('search of tools fell back to keywords', { cause: String(error) })
      return { hint: noAnswer }
    }
  }

  async function keysVisible({ tools }: ToolView, caller: ToolCaller): Promise<ReadonlySet<string>> {
    const slicer = createTimeSlicer(clock, neverAborted)
    const keys = new Set<string>()
    for (const tool of tools) {
      const pause = slicer.pause()
      if (pause !== undefined) await pause
      if (isVisible(tool, caller, mode)) keys.add(keyOf(tool))
    }
    return keys
  }

  function visibleIn(view: ToolView, caller: ToolCaller): Promise<ReadonlySet<string>> {
    const find = () => keysVisible(view, caller)
    const { principal } = caller
    if (principal.securityContexts !== undefined) return find()
    let byRights = visibleKeys.get(view)
    if (byRights === undefined) {
      byRights = new Map()
      visibleKeys.set(view, byRights)
    }
    const key = `${principal.tier}|${permissionsKey(principal.permissions)}`
    let keys = byRights.get(key)
    if (keys === undefined) {
      keys = find()
      byRights.set(key, keys)
    }
    return keys
  }

  /** The index that answers, the query in the form that it needs, and the tools that the caller may see. */
  async function open(principal: Principal, query: string, isPlain: boolean, signal: AbortSignal) {
    const view = await views.viewFor(principal)
    const { corpus } = view
    const { index, queryVector, hint } = isPlain ? noVector : await understood(corpus, query, signal)
    const words = () => made(byWords, corpus, async () => inSlices(await searchableTools(corpus), clock))
    const visible = await visibleIn(view, { principal, transport: 'stdio', exposure: 'full', safeNames: false })
    return { index: index ?? (await words()), queryVector, hint, visible }
  }

  return {
    async search(principal, request, signal) {
      const { index, queryVector, hint, visible } = await open(
        principal,
        request.query,
        request.mode === 'regex',
        signal,
      )
      const answer = index.search({ ...request, queryVector, isVisible: (key) => visible.has(key) })
      if (hint === undefined) return answer
      return { ...answer, hint: answer.hint === null ? hint : `${answer.hint} ${hint}` }
    },
    async rank(principal, { query, isAmong }, signal) {
      const { index, queryVector, hint, visible } = await open(principal, query, false, signal)
      const ranked = index.rank({ query, queryVector, isVisible: (key, name) => visible.has(key) && isAmong(name) })
      return hint === undefined ? ranked : { ...ranked, warning: hint }
    },
  }
}

const endOf = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }))

const inSlices = (
  tools: readonly SearchableTool[],
  clock: Clock,
  vectors?: ReadonlyMap<string, readonly Int8Array[]>,
): Promise<ToolIndex> =>
  buildToolIndexInSlices(tools, createTimeSlicer(clock, neverAborted), vectors === undefined ? {} : { vectors })

async function indexWithVectors(
  corpus: Corpus,
  model: Embedder,
  clock: Clock,
  known: KnownVectors,
): Promise<ToolIndex> {
  const [{ vectorsOfTools }, { default: shipped }, tools] = await Promise.all([
    import('./search/tool-vectors.ts'),
    import('./search/tool-vectors.json', { with: { type: 'json' } }),
    searchableTools(corpus),
  ])
  // Built for every caller that searches, so no caller's cancellation stops it.
  const vectors = await vectorsOfTools(tools, model, shipped, AbortSignal.timeout(limits.toolVectorsMs), known)
  return inSlices(tools, clock, new Map(tools.map((tool, index) => [toolKey(tool), vectors[index]!])))
}

/** What a name says of an upstream tool, and which name it has, differ between callers. */
const keyOf = ({ name, upstream }: CatalogTool): string =>
  upstream === undefined ? name : `${name} ${upstream.id} ${upstream.definition}`

const REDIRECTING_AND_SEARCH = new Set(['search_tools', 'run_tool'])

/** Every tool that search may return, in its searchable form. */
export async function searchableTools(tools: readonly CatalogTool[]): Promise<readonly SearchableTool[]> {
  const { default: usersSay } = await import('./search/users-say.json', { with: { type: 'json' } })
  const phrases: Readonly<Record<string, readonly string[]>> = usersSay
  return tools
    .filter((tool) => !REDIRECTING_AND_SEARCH.has(tool.name) && tool.definition.aliasOf === undefined)
    .map((tool) => ({
      name: tool.name,
      key: keyOf(tool),
      safeName: tool.safeName,
      title: tool.definition.title,
      description: tool.definition.description,
      inputSchema: tool.listed.inputSchema,
      source: tool.upstream === undefined ? 'archestra' : 'mcp',
      server: tool.upstream?.serverName ?? null,
      usersSay: tool.upstream === undefined ? (phrases[tool.name] ?? []) : [],
    }))
}
