import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { GatewayDirectory } from '../../contract/gateway-directory.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { ContentKind, UnreachableServer, UpstreamContent } from '../../contract/upstream-content.ts'
import type { UpstreamCallOptions, UpstreamCredential } from '../../contract/upstream-tools.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { McpServerStore, StoredTool } from './ports.ts'
import type { ContentMethod, UpstreamAddress, UpstreamRuntime } from './runtime.ts'

type UpstreamContentDeps = Readonly<{
  store: Pick<McpServerStore, 'findTool' | 'findItem'>
  read: ReadTx
  runtime: Pick<UpstreamRuntime, 'ask' | 'subscribe'>
  addressFor(
    tool: StoredTool,
    caller: Readonly<{ principal: Principal }>,
    credential: UpstreamCredential,
  ): Promise<UpstreamAddress>
  gateways: Pick<GatewayDirectory, 'offeredTo'>
}>

type ForeignObject = Readonly<Record<string, unknown>>
type Server = Readonly<{
  slug: string
  at: UpstreamAddress
  ask(method: ContentMethod, params: ForeignObject): Promise<unknown>
}>

const listMethods: Readonly<Record<ContentKind, ContentMethod>> = {
  resources: 'resources/list',
  resourceTemplates: 'resources/templates/list',
  prompts: 'prompts/list',
}

/** Resources and prompts of the servers of a gateway's assigned tools, with the credentials of those tools. */
export function createUpstreamContent(deps: UpstreamContentDeps): UpstreamContent {
  const { store, read } = deps

  /** In the order of the assignments, each server once. */
  async function serversOf(principal: Principal, options: UpstreamCallOptions, unreachable: UnreachableServer[]) {
    const offered = principal.gateway === undefined ? undefined : await deps.gateways.offeredTo(principal)
    const servers = new Map<string, Server>()
    const failed = new Set<string>()
    for (const { toolId, credential } of offered?.assigned ?? []) {
      const tool = await store.findTool(read, principal.tenant, toolId)
      if (tool === undefined || servers.has(tool.catalogId) || failed.has(tool.catalogId)) continue
      const item = await store.findItem(read, principal.tenant, tool.catalogId)
      if (item === undefined) continue
      try {
        const at = await deps.addressFor(tool, { principal }, credential)
        const ask: Server['ask'] = (method, params) => deps.runtime.ask(at, method, params, options)
        servers.set(tool.catalogId, { slug: item.slug, at, ask })
      } catch (error) {
        failed.add(tool.catalogId)
        unreachable.push(problemOf(item.slug, error))
      }
    }
    return [...servers.values()]
  }

  /** The answer of the first server that has one. A failure is reported only if no other has it. */
  async function first(
    principal: Principal,
    options: UpstreamCallOptions,
    ask: (server: Server) => Promise<unknown>,
  ): Promise<ForeignObject | undefined> {
    const unreachable: UnreachableServer[] = []
    for (const server of await serversOf(principal, options, unreachable)) {
      try {
        const answer = await ask(server)
        if (isObject(answer)) return answer
      } catch (error) {
        if (options.signal.aborted) throw error
        unreachable.push(problemOf(server.slug, error))
      }
    }
    const [problem] = unreachable
    if (problem === undefined) return undefined
    throw new AppError(
      'ERR_UPSTREAM_UNAVAILABLE',
      `No MCP server of this gateway that answered offers it, and '${problem.server}' could not say: ${problem.message}`,
      { servers: unreachable.map(({ server }) => server) },
    )
  }

  return {
    async list(principal, kind, signal) {
      const unreachable: UnreachableServer[] = []
      const servers = await serversOf(principal, { signal }, unreachable)
      const lists = await Promise.all(
        servers.map(async ({ slug, ask }): Promise<readonly ForeignObject[]> => {
          try {
            const answer = await ask(listMethods[kind], {})
            const items = isObject(answer) && Array.isArray(answer[kind]) ? answer[kind].filter(isObject) : []
            return kind === 'prompts'
              ? items.map((one) => ({ ...one, name: `${slug}__${String(one['name'])}` }))
              : items
          } catch (error) {
            unreachable.push(problemOf(slug, error))
            return []
          }
        }),
      )
      const key = { resources: 'uri', resourceTemplates: 'uriTemplate', prompts: 'name' }[kind]
      const byKey = new Map<unknown, ForeignObject>()
      for (const item of lists.flat()) if (!byKey.has(item[key])) byKey.set(item[key], item)
      return { items: [...byKey.values()].slice(0, limits.mcpContentItemsMax), unreachable }
    },
    async read(principal, uri, options) {
      const answer = await first(principal, options, ({ ask }) => ask('resources/read', { uri }))
      if (!Array.isArray(answer?.['contents'])) throw notThere('uri', 'resource')
      return answer['contents'].filter(isObject)
    },
    async prompt(principal, input, options) {
      const answer = await first(principal, options, async ({ slug, ask }) => {
        const name = ownName(slug, input.name)
        return name === undefined ? undefined : await ask('prompts/get', { name, arguments: input.arguments ?? {} })
      })
      if (!Array.isArray(answer?.['messages'])) throw notThere('name', 'prompt')
      const { description, messages } = answer
      return { ...(typeof description === 'string' && { description }), messages: messages.filter(isObject) }
    },
    async subscribe(principal, uri, client, signal) {
      const answer = await first(principal, { signal, client }, async ({ at }) =>
        (await deps.runtime.subscribe(at, uri, client, signal)) ? { deploymentId: at.deploymentId } : undefined,
      )
      if (answer === undefined) throw notThere('uri', 'resource with subscriptions')
      return String(answer['deploymentId'])
    },
    async offers(principal, deploymentId, signal) {
      const servers = await serversOf(principal, { signal }, [])
      return servers.some(({ at }) => at.deploymentId === deploymentId)
    },
    complete: (principal, params, signal) =>
      first(principal, { signal }, async ({ slug, ask }) => {
        const ref = params['ref']
        if (!isObject(ref) || ref['type'] !== 'ref/prompt') return await ask('completion/complete', params)
        const name = ownName(slug, String(ref['name']))
        return name === undefined ? undefined : await ask('completion/complete', { ...params, ref: { ...ref, name } })
      }),
  }
}

const ownName = (slug: string, name: string): string | undefined =>
  name.startsWith(`${slug}__`) ? name.slice(slug.length + 2) : undefined

const notThere = (field: string, what: string): AppError =>
  new AppError('ERR_NOT_FOUND', `${field}: no MCP server of this gateway has such a ${what}`, { field })

const problemOf = (server: string, error: unknown): UnreachableServer =>
  error instanceof AppError
    ? { server, code: error.code, message: error.message }
    : { server, code: 'ERR_INTERNAL', message: 'The MCP server could not be queried.' }

const isObject = (value: unknown): value is ForeignObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export type McpContentService = ReturnType<typeof createMcpContentService>

/** The same for tools: a read is recorded like every call. */
export const createMcpContentService = (content: UpstreamContent) => ({
  readResource: async (
    { principal, signal, client }: Pick<Call, 'principal' | 'signal' | 'client'>,
    { uri }: Readonly<{ uri: string }>,
  ) => ({
    contents: (await content.read(principal, uri, { signal, client })) as readonly Json[],
  }),
  async getPrompt(
    { principal, signal, client }: Pick<Call, 'principal' | 'signal' | 'client'>,
    input: Readonly<{ name: string; arguments?: Readonly<Record<string, string>> | undefined }>,
  ) {
    const { messages, ...rest } = await content.prompt(principal, input, { signal, client })
    return { ...rest, messages: messages as readonly Json[] }
  },
})
