import { type Client, ProtocolError } from '@modelcontextprotocol/client'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { TenantId } from '../contract/principal.ts'
import type { ContentBlock, RawAnswer } from '../contract/raw-answer.ts'
import type { ContentMethod, ListedTool, UpstreamAddress, UpstreamRuntime } from '../domains/mcp-servers/runtime.ts'
import type { Clock } from '../kernel/clock.ts'
import { createRedactor } from '../kernel/redactor.ts'
import type { CheckedFetch, Fetch } from '../web-client/checked-fetch.ts'
import { type Connection, connect } from './connect.ts'
import { createInstance, type Instance } from './instance.ts'
import { createOauthClient } from './oauth-client.ts'
import type { ServerLog, ServerWorkspaces } from './ports.ts'

export type UpstreamDeps = Readonly<{
  web: CheckedFetch
  localFetch: Fetch
  workspaces: ServerWorkspaces
  log: ServerLog
  clock: Clock
  version: string
  settings: Readonly<{ idleMs: number; startMs: number; callMs: number; runningMax: number }>
}>

/** Between the deployment and the caller of a connection that is not shared. */
const CALLER = '#'

/** The connections to MCP servers of this process. */
export function createUpstreams(deps: UpstreamDeps): UpstreamRuntime {
  const { settings, log } = deps
  const instances = new Map<string, Instance>()
  const listeners = new Set<(tenant: TenantId, deploymentId: string) => void>()
  let isClosed = false

  /** Who has been idle longest makes room. */
  async function admit(): Promise<void> {
    if (isClosed) throw new AppError('ERR_SHUTTING_DOWN', 'The server is shutting down.', { retry_after_ms: 1_000 })
    const open = [...instances.values()].filter((instance) => instance.isOpen())
    if (open.length <= settings.runningMax) return
    const idle = open
      .filter((instance) => instance.idleSinceMs() !== undefined)
      .sort((one, other) => one.idleSinceMs()! - other.idleSinceMs()!)
    if (idle[0] === undefined) {
      const message = `${settings.runningMax} MCP servers are in use, and no more run at once (mcp_servers.max_running).`
      throw new AppError('ERR_BUSY', message, { retry_after_ms: 5_000 })
    }
    await idle[0].stop()
  }

  function instanceOf({ tenant, deploymentId, caller }: UpstreamAddress): Instance {
    const key = caller === undefined ? deploymentId : `${deploymentId}${CALLER}${caller}`
    const known = instances.get(key)
    if (known !== undefined) return known
    const made = createInstance({
      clock: deps.clock,
      idleMs: settings.idleMs,
      startMs: settings.startMs,
      admit,
      log: (line) => log.append(tenant, deploymentId, line),
      open: (at, signal) => open(at, signal),
    })
    instances.set(key, made)
    return made
  }

  async function open(at: UpstreamAddress, signal: AbortSignal): Promise<Connection> {
    const { tenant, deploymentId } = at
    const spec = await at.load()
    const secrets =
      spec.kind === 'local'
        ? [...Object.values(spec.env), ...Object.values(spec.files)]
        : [...Object.values(spec.headers), ...Object.values(spec.query), ...Object.values(spec.cookies)]
    const redactor = createRedactor(secrets)
    const write = (line: string): void => log.append(tenant, deploymentId, redactor?.text(line) ?? line)
    return await connect(
      {
        version: deps.version,
        web: deps.web,
        localFetch: deps.localFetch,
        openWorkspace: (local, until) => deps.workspaces.open(at, local, until),
        log: write,
        onToolsChanged: () => {
          for (const listener of listeners) listener(tenant, deploymentId)
        },
      },
      spec,
      signal,
    )
  }

  /** With the connections that single callers have; those are made anew when they are needed. */
  async function stop(deploymentId: string): Promise<void> {
    for (const [key, instance] of instances) {
      if (key !== deploymentId && !key.startsWith(`${deploymentId}${CALLER}`)) continue
      await instance.stop()
      if (key !== deploymentId) instances.delete(key)
    }
  }

  return {
    listTools: (at, signal) =>
      instanceOf(at).use(at, async ({ client }) => {
        if (client.getServerCapabilities()?.tools === undefined) return []
        const { tools } = await client.listTools(undefined, { signal, timeout: settings.startMs, cacheMode: 'refresh' })
        return usable(tools as readonly ListedTool[], (line) => log.append(at.tenant, at.deploymentId, line))
      }),

    callTool: (at, name, args, { signal, onProgress }) =>
      instanceOf(at).use(at, async ({ client }): Promise<RawAnswer> => {
        try {
          const answer = await client.callTool(
            { name, arguments: { ...args } },
            {
              signal,
              timeout: settings.callMs,
              resetTimeoutOnProgress: true,
              ...(onProgress === undefined
                ? {}
                : {
                    onprogress: ({ progress, total, message }) =>
                      onProgress({
                        progress,
                        ...(total === undefined ? {} : { total }),
                        ...(message === undefined ? {} : { message }),
                      }),
                  }),
            },
          )
          return rawAnswerOf(answer as unknown as Record<string, unknown>)
        } catch (error) {
          if (signal.aborted) throw new AppError('ERR_CANCELLED', 'The call was cancelled.')
          if (!ProtocolError.isInstance(error)) throw error
          // The server's own refusal is its answer.
          const text = error.message.slice(0, limits.mcpErrorCharsMax)
          return { content: [{ type: 'text', text }], isError: true, _meta: { 'castellan/rpcErrorCode': error.code } }
        }
      }),

    ask: (at, method, params, signal) =>
      instanceOf(at).use(at, async ({ client }) => {
        try {
          return await askFor(client, method, params, { signal, timeout: settings.callMs })
        } catch (error) {
          if (signal.aborted) throw new AppError('ERR_CANCELLED', 'The request was cancelled.')
          if (!ProtocolError.isInstance(error)) throw error
          if (notThere.has(error.code)) return undefined
          throw new AppError('ERR_UPSTREAM_UNAVAILABLE', 'The MCP server answered with an error.', {
            server_said: error.message.slice(0, limits.mcpErrorCharsMax),
          })
        }
      }),

    stateOf: (deploymentId) =>
      instances.get(deploymentId)?.state() ?? { state: 'stopped', problem: undefined, starts: 0 },
    stop,
    async remove(tenant, deploymentId) {
      await stop(deploymentId)
      instances.delete(deploymentId)
      await deps.workspaces.remove(tenant, deploymentId)
      await log.remove(tenant, deploymentId)
    },
    readLog: (tenant, deploymentId, lines) => log.read(tenant, deploymentId, lines),
    onToolsChanged(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    oauth: createOauthClient(deps.web.fetch),
    checkAddress: async (url) => await deps.web.check(new URL(url), AbortSignal.timeout(limits.mcpConnectMs)),
    async close() {
      isClosed = true
      await Promise.all([...instances.values()].map((instance) => instance.stop()))
      await log.close()
    },
  }
}

/** Each name once, and nothing that would make the list of every caller long. What is left out is told in the server's log. */
function usable(tools: readonly ListedTool[], tell: (line: string) => void): readonly ListedTool[] {
  const seen = new Set<string>()
  return tools.filter((tool) => {
    const isTwice = seen.has(tool.name)
    seen.add(tool.name)
    const isLarge = !isTwice && Buffer.byteLength(JSON.stringify(tool)) > limits.mcpToolBytesMax
    if (isTwice || isLarge) {
      const why = isTwice ? 'its name is there twice' : `its definition has more than ${limits.mcpToolBytesMax} bytes`
      tell(`a tool is left out: ${why} (${JSON.stringify(tool.name.slice(0, 64))})`)
    }
    return !isTwice && !isLarge
  })
}

/** The members that MCP gives an answer; whatever else a server adds is left out. */
function rawAnswerOf({ content, structuredContent, isError, _meta }: Record<string, unknown>): RawAnswer {
  return {
    content: (Array.isArray(content) ? content : []) as ContentBlock[],
    ...(structuredContent === undefined ? {} : { structuredContent: structuredContent as Record<string, unknown> }),
    ...(isError === undefined ? {} : { isError: isError === true }),
    ...(_meta === undefined ? {} : { _meta: _meta as Record<string, unknown> }),
  }
}

/** Codes by which servers say that they have no such resource, prompt or method. */
const notThere: ReadonlySet<number> = new Set([-32002, -32601, -32602])

/** Undefined if the server does not offer anything of the kind. */
async function askFor(
  client: Client,
  method: ContentMethod,
  params: Readonly<Record<string, unknown>>,
  options: Readonly<{ signal: AbortSignal; timeout: number }>,
): Promise<unknown> {
  const { resources, prompts, completions } = client.getServerCapabilities() ?? {}
  switch (method) {
    case 'resources/list':
      return resources && (await client.listResources(undefined, { ...options, cacheMode: 'refresh' }))
    case 'resources/templates/list':
      return resources && (await client.listResourceTemplates(undefined, { ...options, cacheMode: 'refresh' }))
    case 'resources/read':
      return resources && (await client.readResource(params as { uri: string }, { ...options, cacheMode: 'refresh' }))
    case 'prompts/list':
      return prompts && (await client.listPrompts(undefined, { ...options, cacheMode: 'refresh' }))
    case 'prompts/get':
      return prompts && (await client.getPrompt(params as Parameters<Client['getPrompt']>[0], options))
    case 'completion/complete':
      return completions && (await client.complete(params as Parameters<Client['complete']>[0], options))
  }
}
