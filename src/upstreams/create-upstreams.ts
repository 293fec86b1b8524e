import {
  CLIENT_CAPABILITIES_META_KEY,
  type Client,
  LOG_LEVEL_META_KEY,
  type LoggingLevel,
  ProtocolError,
  type RequestOptions,
} from '@modelcontextprotocol/client'
import { AppError } from '../contract/app-error.ts'
import type { Progress } from '../contract/call.ts'
import { limits } from '../contract/limits.ts'
import type { TenantId } from '../contract/principal.ts'
import type { ContentBlock, RawAnswer } from '../contract/raw-answer.ts'
import type { UpstreamCallOptions } from '../contract/upstream-tools.ts'
import type { ContentMethod, ListedTool, UpstreamAddress, UpstreamRuntime } from '../domains/mcp-servers/runtime.ts'
import type { Clock } from '../kernel/clock.ts'
import { nextTurn } from '../kernel/time-slicer.ts'
import type { CheckedFetch, Fetch } from '../web-client/checked-fetch.ts'
import { startDeadline } from './call-deadline.ts'
import { type ClientLink, createClientLink } from './client-link.ts'
import { connect } from './connect.ts'
import type { Connection } from './handshake.ts'
import { createInstance, type Instance } from './instance.ts'
import { maskedLog } from './masked-log.ts'
import { createOauthClient } from './oauth-client.ts'
import { createOwnConnections } from './own-connections.ts'
import type { PlainCall } from './plain-calls.ts'
import type { ServerLog, ServerWorkspaces } from './ports.ts'
import { requireReachable } from './reachable-address.ts'
import { createReached } from './reached.ts'
import { sendInRounds } from './send-in-rounds.ts'
import { createSharedWorkspaces } from './shared-workspaces.ts'
import { subscribe } from './subscribe.ts'
import { callAsTask, declaredTo, finished, offersTasks, taskSupportOf } from './upstream-tasks.ts'

export type UpstreamDeps = Readonly<{
  web: CheckedFetch
  localFetch: Fetch
  workspaces: ServerWorkspaces
  log: ServerLog
  clock: Clock
  version: string
  settings: Readonly<{ idleMs: number; startMs: number; callMs: number; runningMax: number }>
}>

/** Separates the deployment and the caller in the key of an unshared connection. */
const CALLER = '#'
const allCapabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} }
/** For requests that our own deadline bounds: the longest delay of a timer. */
const NO_TIMEOUT_MS = 2 ** 31 - 1

type Params = Readonly<Record<string, unknown>>

/** The connections to MCP servers of this process. */
export function createUpstreams(deps: UpstreamDeps): UpstreamRuntime {
  const { settings, log, clock } = deps
  const instances = new Map<string, Instance>()
  const workspaces = createSharedWorkspaces(deps.workspaces)
  /** The last known revision of each deployment. */
  const eras = new Map<string, 'legacy' | 'modern'>()
  const reached = createReached()
  const listeners = new Set<(tenant: TenantId, deploymentId: string) => void>()
  let isClosed = false

  /** The connection that has been idle longest is closed first. */
  async function admit(): Promise<void> {
    if (isClosed) throw new AppError('ERR_SHUTTING_DOWN', 'The server is shutting down.', { retry_after_ms: 1_000 })
    const open = [...instances.values()].filter((instance) => instance.isOpen())
    if (open.length <= settings.runningMax) return
    const idle = open
      .filter((instance) => instance.idleSinceMs() !== undefined)
      .sort((one, other) => one.idleSinceMs()! - other.idleSinceMs()!)
    if (idle[0] === undefined) {
      const message = `The limit of ${settings.runningMax} connected MCP servers (mcp_servers.max_running) is reached, and all of them are in use. Try again later.`
      throw new AppError('ERR_BUSY', message, { retry_after_ms: 5_000 })
    }
    await idle[0].stop()
  }

  function instanceOf(at: UpstreamAddress): Instance {
    const key = at.caller === undefined ? at.deploymentId : `${at.deploymentId}${CALLER}${at.caller}`
    return instances.get(key) ?? addInstance(key, at, undefined)
  }

  /** A server's list may depend on the client's capabilities, so all of them are declared for it. */
  function listingInstanceOf(at: UpstreamAddress): Instance {
    const key = `${at.deploymentId}${CALLER}list`
    return instances.get(key) ?? addInstance(key, at, createClientLink(allCapabilities))
  }

  function addInstance(
    key: string,
    { tenant, deploymentId }: UpstreamAddress,
    clientLink: ClientLink | undefined,
    onStopped?: () => void,
  ): Instance {
    const made = createInstance({
      clock,
      idleMs: settings.idleMs,
      startMs: settings.startMs,
      admit,
      log: (line) => log.append(tenant, deploymentId, line),
      onReached: reached.note,
      open: (at, signal) => open(at, clientLink, signal),
      ...(onStopped && { onStopped }),
    })
    instances.set(key, made)
    return made
  }

  const own = createOwnConnections({
    open: (key, at, clientLink, onStopped) => addInstance(key, at, clientLink, onStopped),
    forget: (key) => void instances.delete(key),
  })

  async function open(
    at: UpstreamAddress,
    clientLink: ClientLink | undefined,
    signal: AbortSignal,
  ): Promise<Connection> {
    const { tenant, deploymentId } = at
    const masked = maskedLog(await at.load(), (line) => log.append(tenant, deploymentId, line))
    const connection = await connect(
      {
        mode: eras.get(deploymentId) === 'legacy' ? 'legacy' : 'auto',
        version: deps.version,
        server: masked.spec.name,
        web: deps.web,
        localFetch: deps.localFetch,
        openWorkspace: (local, until) => workspaces.open(at, local, until),
        log: masked.log,
        clientLink,
        onToolsChanged: () => {
          for (const listener of listeners) listener(tenant, deploymentId)
        },
      },
      masked.spec,
      signal,
    ).catch((error: unknown) => {
      eras.delete(deploymentId)
      throw error
    })
    eras.set(deploymentId, connection.client.getProtocolEra() ?? 'legacy')
    return connection
  }

  /** On the shared connection, or on the client's own if the server may ask it questions. */
  function use<T>(
    at: UpstreamAddress,
    { client, signal }: UpstreamCallOptions,
    work: (connection: Connection, clientLink: ClientLink | undefined) => Promise<T>,
  ): Promise<T> {
    if (client === undefined) return instanceOf(at).use(at, (connection) => work(connection, undefined))
    // In the newer revision a question comes with the answer to a request, so no other client can be asked. A log message does not
    // say whose request it belongs to.
    if (eras.get(at.deploymentId) !== 'modern' || client.logLevel !== undefined) {
      return own.use(at, client, signal, async (connection, clientLink) => {
        await setLogLevel(connection.client, client.logLevel, signal)
        return await work(connection, clientLink)
      })
    }
    const clientLink = createClientLink(client.capabilities)
    clientLink.enter(client)
    return instanceOf(at).use(at, (connection) => work(connection, clientLink))
  }

  /** The time limit is paused while the client is asked. */
  async function send<Result>(
    { client, server }: Connection,
    clientLink: ClientLink | undefined,
    { signal, onProgress, client: caller }: UpstreamCallOptions,
    params: Params,
    request: (params: Params, options: RequestOptions) => Promise<Result>,
  ): Promise<Result> {
    const isModern = client.getProtocolEra() === 'modern'
    const mustDeclare = isModern && (clientLink !== undefined || offersTasks(client))
    const meta = mustDeclare && {
      _meta: {
        [CLIENT_CAPABILITIES_META_KEY]: declaredTo(client, clientLink?.capabilities),
        ...(caller?.logLevel !== undefined && { [LOG_LEVEL_META_KEY]: caller.logLevel }),
      },
    }
    if (clientLink === undefined) {
      const options = { signal, timeout: settings.callMs, resetTimeoutOnProgress: true, ...progressTo(onProgress) }
      return await sendInRounds({ ...params, ...meta }, options, request, undefined)
    }
    using deadline = startDeadline(clock, settings.callMs)
    const stopListening = clientLink.onAsking(deadline.pause)
    const progress = progressTo((update) => {
      deadline.restart()
      onProgress?.(update)
    })
    const until = AbortSignal.any([signal, deadline.signal])
    try {
      const options = { signal: until, timeout: NO_TIMEOUT_MS, ...progress }
      return await sendInRounds({ ...params, ...meta }, options, request, (questions) =>
        clientLink.ask(server, questions, until),
      )
    } catch (error) {
      if (signal.aborted || !deadline.signal.aborted) throw error
      throw new AppError('ERR_TIMED_OUT', 'The MCP server did not answer in time.', {}, { cause: error })
    } finally {
      stopListening()
    }
  }

  /** Including the connections of single callers, which are reopened on demand. */
  async function stop(deploymentId: string): Promise<void> {
    const meant = [...instances].filter(([key]) => isOf(key, deploymentId))
    reached.forget(deploymentId)
    await Promise.all(
      meant.map(async ([key, instance]) => {
        await instance.stop()
        if (key !== deploymentId) instances.delete(key)
      }),
    )
  }

  return {
    listTools: (at, signal) =>
      listingInstanceOf(at).use(at, async ({ client }) => {
        if (client.getServerCapabilities()?.tools === undefined) return []
        const { tools } = await client.listTools(undefined, { signal, timeout: settings.startMs, cacheMode: 'refresh' })
        // Parsing a long list takes most of a turn of the event loop.
        await nextTurn()
        const listed = (tools as readonly ListedTool[]).map((tool) => ({
          ...tool,
          taskSupport: taskSupportOf(client, tool),
        }))
        return usable(listed, (line) => log.append(at.tenant, at.deploymentId, line))
      }),

    callTool: (at, name, args, options) =>
      use(at, options, async (connection, clientLink): Promise<RawAnswer> => {
        const { plainCall } = connection
        try {
          if (options.asTask === true) {
            const found = await callAsTask(connection, clientLink, name, args, options, settings.callMs)
            if (found !== undefined) return rawAnswerOf(found)
          }
          if (plainCall !== undefined && clientLink === undefined) {
            const { signal, onProgress } = options
            return rawAnswerOf(await plainCall(name, args, { signal, timeoutMs: settings.callMs, onProgress }))
          }
          const params = { name, arguments: { ...args } }
          const answer = await send<unknown>(connection, clientLink, options, params, (sent, limited) =>
            plainCall === undefined
              ? connection.client.callTool(sent as typeof params, limited)
              : plainCall(name, args, plainOptions(limited)).then(rawAnswerOf),
          )
          return rawAnswerOf(await finished(connection, clientLink, answer as Record<string, unknown>, options))
        } catch (error) {
          if (options.signal.aborted) throw new AppError('ERR_CANCELLED', 'The call was cancelled.')
          if (!ProtocolError.isInstance(error)) throw error
          // The server's own refusal is its answer.
          const text = error.message.slice(0, limits.mcpErrorCharsMax)
          return { content: [{ type: 'text', text }], isError: true, _meta: { 'castellan/rpcErrorCode': error.code } }
        }
      }),

    ask: (at, method, params, options) =>
      use(at, options, async (connection, clientLink) => {
        try {
          return await send(connection, clientLink, options, params, (sent, limited) =>
            askFor(connection.client, method, sent, limited),
          )
        } catch (error) {
          if (options.signal.aborted) throw new AppError('ERR_CANCELLED', 'The request was cancelled.')
          if (!ProtocolError.isInstance(error)) throw error
          if (notThere.has(error.code)) return undefined
          throw new AppError(
            'ERR_UPSTREAM_UNAVAILABLE',
            'The MCP server answered with an error.',
            { server_said: error.message.slice(0, limits.mcpErrorCharsMax) },
            { quotes: ['server_said'] },
          )
        }
      }),

    subscribe: (at, uri, client, signal) => subscribe((work) => own.use(at, client, signal, work), client, uri, signal),

    stateOf(deploymentId) {
      const own = [...instances].filter(([key]) => isOf(key, deploymentId))
      return reached.stateOf(
        deploymentId,
        own.map(([, instance]) => instance.state()),
      )
    },
    stop,
    async remove(tenant, deploymentId) {
      await stop(deploymentId)
      instances.delete(deploymentId)
      eras.delete(deploymentId)
      await deps.workspaces.remove(tenant, deploymentId)
      await log.remove(tenant, deploymentId)
    },
    readLog: (tenant, deploymentId, lines) => log.read(tenant, deploymentId, lines),
    onToolsChanged(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    oauth: createOauthClient(deps.web.fetch),
    checkAddress: (field, url) => requireReachable(deps.web, field, url, AbortSignal.timeout(limits.mcpConnectMs)),
    async close() {
      isClosed = true
      await Promise.all([...instances.values()].map((instance) => instance.stop()))
      await log.close()
    },
  }
}

const logLevels = new WeakMap<Client, LoggingLevel>()

/** The minimum level of server log messages that the client requested. */
async function setLogLevel(server: Client, level: string | undefined, signal: AbortSignal): Promise<void> {
  const isOffered = server.getServerCapabilities()?.logging !== undefined && server.getProtocolEra() === 'legacy'
  if (level === undefined || !isOffered || logLevels.get(server) === level) return
  logLevels.set(server, level as LoggingLevel)
  await server.setLoggingLevel(level as LoggingLevel, { signal })
}

const plainOptions = ({ signal, timeout, onprogress }: RequestOptions): Parameters<PlainCall>[2] => ({
  signal: signal!,
  timeoutMs: timeout!,
  onProgress: onprogress,
})

const isOf = (key: string, deploymentId: string): boolean =>
  key === deploymentId || key.startsWith(`${deploymentId}${CALLER}`)

const progressTo = (onProgress: ((update: Progress) => void) | undefined): Pick<RequestOptions, 'onprogress'> =>
  onProgress === undefined
    ? {}
    : {
        onprogress: ({ progress, total, message }) =>
          onProgress({
            progress,
            ...(total === undefined ? {} : { total }),
            ...(message === undefined ? {} : { message }),
          }),
      }

/** Each name once, and bounded in size, because every caller gets the list. Omissions are reported in the server's log. */
function usable(tools: readonly ListedTool[], tell: (line: string) => void): readonly ListedTool[] {
  const seen = new Set<string>()
  const max = limits.mcpToolsPerServerMax
  if (tools.length > max) tell(`the server lists ${tools.length} tools, and only the first ${max} can be used`)
  return tools.filter((tool) => {
    const isTwice = seen.has(tool.name)
    seen.add(tool.name)
    const why = isTwice ? 'its name occurs twice' : problemOf(tool)
    if (why !== undefined) tell(`a tool is left out: ${why} (${JSON.stringify(tool.name.slice(0, 64))})`)
    return why === undefined
  })
}

/** Why a tool cannot be used; undefined if it can. */
function problemOf(tool: ListedTool): string | undefined {
  if (tool.name.includes('\u0000') || !tool.name.isWellFormed()) return 'its name has a character that cannot be stored'
  return Buffer.byteLength(JSON.stringify(tool)) > limits.mcpToolBytesMax
    ? `its definition has more than ${limits.mcpToolBytesMax} bytes`
    : undefined
}

/** The standard members of an MCP answer; others are dropped. */
function rawAnswerOf({ content, structuredContent, isError, _meta }: Record<string, unknown>): RawAnswer {
  return {
    content: (Array.isArray(content) ? content : []) as ContentBlock[],
    ...(structuredContent === undefined ? {} : { structuredContent: structuredContent as Record<string, unknown> }),
    ...(isError === undefined ? {} : { isError: isError === true }),
    ...(_meta === undefined ? {} : { _meta: _meta as Record<string, unknown> }),
  }
}

/** Error codes for a missing resource, prompt or method. */
const notThere: ReadonlySet<number> = new Set([-32002, -32601, -32602])

/** Undefined if the server offers nothing of the kind. */
async function askFor(
  client: Client,
  method: ContentMethod,
  params: Params,
  options: RequestOptions,
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
