import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { McpServer, type RegisteredTool } from '@modelcontextprotocol/sdk/server/mcp.js'
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { z } from 'zod'

/** A third-party MCP server, on the SDK that most of them are written with. */
export type McpUpstream = AsyncDisposable &
  Readonly<{
    url: string
    /** Headers and address of every request, oldest first. */
    requests: readonly Readonly<{ method: string; url: string; headers: IncomingMessage['headers'] }>[]
    /** Adds a tool to every session that is open, and tells them. It answers its name, or the text. */
    addTool(name: string, text?: string): void
    removeTool(name: string): void
    /** Tells every session that is open that its tools changed. */
    announce(): void
    /** Answers no message from now on, until it is told to. Resolves when the first has come. */
    hold(): Readonly<{ held: Promise<void>; release(): void }>
    /** Ends all sessions: a client finds its own unknown. */
    forgetSessions(): void
    /** As if its process was killed: its connections break, and nobody listens at its port. */
    goDown(): Promise<void>
    /** A new process listens at the same port, and knows no session. */
    comeBack(): Promise<void>
    /** The calls of `hang`; each is aborted when it is cancelled, with the reason that was sent. */
    hanging: readonly AbortSignal[]
    /** Sends this status for every request from now on; undefined is back to normal. */
    failWith(status: number | undefined): void
  }>

/** Who may use it: tokens of an authorisation server, which its metadata (RFC 9728) names. */
export type Protection = Readonly<{
  issuer: string
  isValid(token: string): boolean
  challenge(metadataUrl: string): string
}>

export async function startMcpUpstream(
  kind: 'streamable-http' | 'sse' = 'streamable-http',
  protection?: Protection,
): Promise<McpUpstream> {
  const requests: { method: string; url: string; headers: IncomingMessage['headers'] }[] = []
  const sessions = new Map<string, StreamableHTTPServerTransport | SSEServerTransport>()
  const servers = new Set<McpServer>()
  const added = new Map<string, RegisteredTool[]>()
  const names = new Map<string, string>()
  const hanging: AbortSignal[] = []
  let failure: number | undefined
  let holding: Readonly<{ note(): void; released: Promise<void> }> | undefined

  function make(): McpServer {
    const server = new McpServer({ name: 'upstream', version: '1.0.0' }, { capabilities: { logging: {} } })
    server.registerTool(
      'echo',
      { description: 'Say it again.', inputSchema: { text: z.string() } },
      async ({ text }) => ({ content: [{ type: 'text', text }], _meta: { 'example/trace': 'x' } }),
    )
    server.registerTool(
      'sum',
      {
        title: 'Add',
        description: 'Add two numbers.',
        annotations: { readOnlyHint: true },
        inputSchema: z.strictObject({ a: z.number(), b: z.number() }),
        outputSchema: { sum: z.number() },
      },
      async ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }], structuredContent: { sum: a + b } }),
    )
    server.registerTool('fail', { description: 'Never works.' }, async () => ({
      content: [{ type: 'text', text: 'it broke' }],
      isError: true,
    }))
    server.registerTool('hang', { description: 'Never answers.' }, ({ signal }) => {
      hanging.push(signal)
      return new Promise<never>(() => {})
    })
    server.registerTool('steps', { description: 'Takes two steps.' }, async ({ _meta, sendNotification }) => {
      const progressToken = _meta?.progressToken
      for (const progress of [1, 2]) {
        if (progressToken !== undefined)
          await sendNotification({ method: 'notifications/progress', params: { progressToken, progress, total: 2 } })
      }
      return { content: [{ type: 'text', text: 'done' }] }
    })
    for (const name of names.keys()) added.get(name)!.push(register(server, name))
    servers.add(server)
    return server
  }
  const register = (server: McpServer, name: string): RegisteredTool =>
    server.registerTool(name, { description: 'Came later.' }, async () => ({
      content: [{ type: 'text', text: names.get(name) ?? name }],
    }))

  async function handle(
    req: IncomingMessage,
    res: Parameters<StreamableHTTPServerTransport['handleRequest']>[1],
  ): Promise<void> {
    const { method = '', url = '', headers } = req
    requests.push({ method, url, headers })
    if (holding !== undefined && method === 'POST') {
      holding.note()
      await holding.released
    }
    if (failure !== undefined) {
      res.writeHead(failure).end()
      return
    }
    if (protection !== undefined && isRefused(protection, req, res)) return
    if (kind === 'sse') await handleSse(req, res)
    else await handleStreamable(req, res)
  }

  /** Tells how to get a token, or that there is none. */
  function isRefused(by: Protection, { url = '', headers }: IncomingMessage, res: ServerResponse): boolean {
    const metadataPath = '/metadata-of-mcp'
    const origin = `http://${headers.host}`
    if (url === metadataPath) {
      const resource = `${origin}/${kind === 'sse' ? 'sse' : 'mcp'}`
      const metadata = { resource, authorization_servers: [by.issuer], scopes_supported: ['tools'] }
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(metadata))
      return true
    }
    if (by.isValid(String(headers.authorization).replace(/^Bearer /, ''))) return false
    res.writeHead(401, { 'www-authenticate': by.challenge(`${origin}${metadataPath}`) }).end()
    return true
  }

  async function handleStreamable(
    req: IncomingMessage,
    res: Parameters<StreamableHTTPServerTransport['handleRequest']>[1],
  ): Promise<void> {
    const known = sessions.get(String(req.headers['mcp-session-id'])) as StreamableHTTPServerTransport | undefined
    if (known !== undefined) return await known.handleRequest(req, res)
    if (req.headers['mcp-session-id'] !== undefined) return void res.writeHead(404).end()
    if (req.method !== 'POST') return void res.writeHead(405).end()
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
    })
    await make().connect(transport)
    await transport.handleRequest(req, res)
  }

  async function handleSse(
    req: IncomingMessage,
    res: Parameters<StreamableHTTPServerTransport['handleRequest']>[1],
  ): Promise<void> {
    const at = new URL(req.url ?? '', 'http://localhost')
    if (req.method === 'GET') {
      const transport = new SSEServerTransport('/messages', res)
      sessions.set(transport.sessionId, transport)
      await make().connect(transport)
    } else if (at.pathname === '/messages') {
      const transport = sessions.get(at.searchParams.get('sessionId') ?? '') as SSEServerTransport | undefined
      if (transport === undefined) res.writeHead(404).end()
      else await transport.handlePostMessage(req, res, await json(req))
    } else res.writeHead(405).end()
  }

  const http: Server = createServer((req, res) => {
    handle(req, res).catch((error: unknown) => {
      if (!res.headersSent) res.writeHead(500)
      res.end(String(error))
    })
  })
  const listen = (at: number) => new Promise<void>((resolve) => http.listen(at, '127.0.0.1', resolve))
  await listen(0)
  const { port } = http.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/${kind === 'sse' ? 'sse' : 'mcp'}`,
    requests,
    hanging,
    addTool(name, text = name) {
      names.set(name, text)
      added.set(
        name,
        [...servers].map((server) => register(server, name)),
      )
    },
    removeTool(name) {
      names.delete(name)
      for (const tool of added.get(name) ?? []) tool.remove()
    },
    announce() {
      for (const server of servers) server.sendToolListChanged()
    },
    hold() {
      const held = Promise.withResolvers<void>()
      const released = Promise.withResolvers<void>()
      holding = { note: held.resolve, released: released.promise }
      return {
        held: held.promise,
        release() {
          holding = undefined
          released.resolve()
        },
      }
    },
    forgetSessions: () => sessions.clear(),
    async goDown() {
      const closed = new Promise((resolve) => http.close(resolve))
      http.closeAllConnections()
      await closed
    },
    async comeBack() {
      sessions.clear()
      await listen(port)
    },
    failWith(status) {
      failure = status
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...servers].map((server) => server.close()))
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
}
