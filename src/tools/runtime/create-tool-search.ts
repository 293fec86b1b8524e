import type { Embedder } from '../../contract/embedder.ts'
import { limits } from '../../contract/limits.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Catalog } from './catalog.ts'
import { buildToolIndex, type SearchableTool, type ToolIndex } from './search/tool-index.ts'
import type { ToolSearch } from './services.ts'
import { isVisible, type Mode } from './stages.ts'
import type { ToolCaller } from './tool-host.ts'

export type ToolSearchDeps = Readonly<{
  catalog: Catalog
  mode: Mode
  /** None where there is no model: then words decide. */
  embedder(): Embedder | undefined
  logger: Logger
}>

type Understood = Readonly<{ asked?: Float32Array | undefined; index?: ToolIndex; hint?: string }>

const noVector: Understood = {}
const noModel =
  'There is no model for search by meaning (search.local_model, search.embeddings): these are matches of words.'
const noAnswer = 'The model for search by meaning did not answer: these are matches of words.'

/** Search over the catalogue as one principal may use it; the index is built on first use. */
export function createToolSearch({ catalog, mode, embedder, logger }: ToolSearchDeps): ToolSearch {
  let byWords: Promise<ToolIndex> | undefined
  let byMeaning: Promise<ToolIndex> | undefined

  function indexFor(model: Embedder): Promise<ToolIndex> {
    byMeaning ??= indexWithVectors(catalog, model).catch((error: unknown) => {
      byMeaning = undefined
      throw error
    })
    return byMeaning
  }

  async function understood(query: string, signal: AbortSignal): Promise<Understood> {
    const model = embedder()
    if (model === undefined) return { hint: noModel }
    try {
      const patience = AbortSignal.any([signal, AbortSignal.timeout(limits.toolSearchModelMs)])
      const [[asked], index] = await Promise.race([
        Promise.all([model.embed([query], patience), indexFor(model)]),
        endOf(patience),
      ])
      return { asked, index }
    } catch (error) {
      if (signal.aborted) throw error
      logger.warn('search of tools fell back to words', { cause: String(error) })
      return { hint: noAnswer }
    }
  }

  return async (principal, request, signal) => {
    const { index, asked, hint } = request.mode === 'regex' ? noVector : await understood(request.query, signal)
    if (index === undefined) byWords ??= searchableTools(catalog).then((tools) => buildToolIndex(tools))
    const caller: ToolCaller = { principal, door: 'stdio', exposure: 'full', safeNames: false }
    const answer = (index ?? (await byWords)!).search({
      ...request,
      asked,
      isVisible: (name) => isVisible(catalog.find(name)!, caller, mode),
    })
    if (hint === undefined) return answer
    return { ...answer, hint: answer.hint === null ? hint : `${answer.hint} ${hint}` }
  }
}

const endOf = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }))

async function indexWithVectors(catalog: Catalog, model: Embedder): Promise<ToolIndex> {
  const [{ vectorsOfTools }, { default: shipped }, tools] = await Promise.all([
    import('./search/tool-vectors.ts'),
    import('./search/tool-vectors.json', { with: { type: 'json' } }),
    searchableTools(catalog),
  ])
  // Made for everybody who searches, so nobody's cancellation ends it.
  const vectors = await vectorsOfTools(tools, model, shipped, AbortSignal.timeout(limits.toolVectorsMs))
  return buildToolIndex(tools, undefined, new Map(tools.map(({ name }, index) => [name, vectors[index]!])))
}

const REDIRECTING_AND_SEARCH = new Set(['search_tools', 'run_tool'])

/** Every tool that search may answer, as it is known to it. */
export async function searchableTools({ tools }: Catalog): Promise<readonly SearchableTool[]> {
  const { default: usersSay } = await import('./search/users-say.json', { with: { type: 'json' } })
  const phrases: Readonly<Record<string, readonly string[]>> = usersSay
  return tools
    .filter((tool) => !REDIRECTING_AND_SEARCH.has(tool.name) && tool.definition.aliasOf === undefined)
    .map((tool) => ({
      name: tool.name,
      safeName: tool.safeName,
      title: tool.definition.title,
      description: tool.definition.description,
      inputSchema: tool.listed.inputSchema,
      source: 'archestra',
      server: null,
      usersSay: phrases[tool.name] ?? [],
    }))
}
