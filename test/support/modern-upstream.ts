import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  createMcpHandler,
  type InputRequest,
  inputRequired,
  inputResponse,
  McpServer,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import { sendWebResponse, webRequestOf } from '../../src/mcp/web-bridge.ts'
import { answering } from './answering.ts'

/** A third-party MCP server that speaks 2026-07-28 and nothing before it. */
export type ModernUpstream = AsyncDisposable &
  Readonly<{
    url: string
    /** The capabilities that clients declared with their calls, oldest first. */
    declared: readonly unknown[]
    /** The tasks that it made, by what they are called as, with what became of them. */
    tasks: ReadonlyMap<string, Readonly<{ tool: string; status: string; looks: number }>>
    /** Tells those who subscribed to it that it changed. */
    update(uri: string): void
  }>

const text = (said: string) => ({ content: [{ type: 'text' as const, text: said }] })

const question = (message: string, properties: Record<string, { type: string }>): InputRequest =>
  ({
    method: 'elicitation/create',
    params: { message, requestedSchema: { type: 'object', properties, required: Object.keys(properties) } },
  }) as InputRequest

export const NOTE = 'note://today'

type UpstreamTask = { tool: string; status: string; statusMessage?: string; looks: number; answer?: string }

/** Work of some steps, of a step that asks, and without an end. */
const taskTools = ['bake', 'choose', 'brood'] as const
const TASKS = 'io.modelcontextprotocol/tasks'

const viewOfTask = (taskId: string, { status, statusMessage }: UpstreamTask) => ({
  taskId,
  status,
  ...(statusMessage !== undefined && { statusMessage }),
  createdAt: new Date(0).toISOString(),
  lastUpdatedAt: new Date(0).toISOString(),
  ttlMs: 60_000,
  pollIntervalMs: 50,
})

function installTasks({ server }: McpServer, tasks: Map<string, UpstreamTask>): void {
  const params = z.looseObject({ taskId: z.string() })
  server.setRequestHandler('tasks/get', { params }, ({ taskId }) => {
    const task = tasks.get(taskId)!
    task.looks++
    if (task.status === 'working' && task.tool !== 'brood') {
      task.statusMessage = `step ${task.looks}`
      if (task.looks === 3)
        task.status = task.tool === 'choose' && task.answer === undefined ? 'input_required' : 'completed'
    }
    if (task.status === 'completed')
      return { ...viewOfTask(taskId, task), result: text(`${task.tool} ${task.answer ?? 'done'}`) }
    if (task.status !== 'input_required') return viewOfTask(taskId, task)
    return {
      ...viewOfTask(taskId, task),
      inputRequests: { filling: question('Which filling?', { filling: { type: 'string' } }) },
    }
  })
  server.setRequestHandler('tasks/update', { params }, ({ taskId }, { mcpReq }) => {
    const task = tasks.get(taskId)!
    task.answer = String(acceptedContent(mcpReq.inputResponses, 'filling')?.['filling'])
    task.status = 'completed'
    return {}
  })
  server.setRequestHandler('tasks/cancel', { params }, ({ taskId }) => {
    tasks.get(taskId)!.status = 'cancelled'
    return {}
  })
}

export async function startModernUpstream(): Promise<ModernUpstream> {
  const declared: unknown[] = []
  const tasks = new Map<string, UpstreamTask>()
  const handler = createMcpHandler(
    () => {
      const server = new McpServer(
        { name: 'modern', version: '1.0.0' },
        { capabilities: { logging: {}, resources: { subscribe: true }, extensions: { [TASKS]: {} } } },
      )
      for (const tool of taskTools) {
        server.registerTool(tool, { description: 'Takes a while.' }, ({ mcpReq }) => {
          const envelope = mcpReq.envelope as Record<string, { extensions?: Record<string, unknown> }> | undefined
          if (envelope?.[CLIENT_CAPABILITIES_META_KEY]?.extensions?.[TASKS] === undefined)
            return text(`${tool} at once`)
          const taskId = `task-${tasks.size}`
          tasks.set(taskId, { tool, status: 'working', looks: 0 })
          return { resultType: 'task', ...viewOfTask(taskId, tasks.get(taskId)!) } as never
        })
      }
      installTasks(server, tasks)
      server.registerTool(
        'echo',
        { description: 'Say it again.', inputSchema: z.object({ text: z.string() }) },
        ({ text: said }) => text(said),
      )
      server.registerTool('greet', { description: 'Asks for a name, then for a colour.' }, ({ mcpReq }) => {
        const envelope = mcpReq.envelope as Record<string, unknown> | undefined
        declared.push(envelope?.[CLIENT_CAPABILITIES_META_KEY])
        const colour = acceptedContent(mcpReq.inputResponses, 'colour')?.['colour']
        if (typeof colour === 'string') return text(`${mcpReq.requestState<string>()} likes ${colour}`)
        const name = acceptedContent(mcpReq.inputResponses, 'name')?.['name']
        if (typeof name === 'string') {
          return inputRequired({
            inputRequests: { colour: question('Which colour?', { colour: { type: 'string' } }) },
            requestState: name,
          })
        }
        return inputRequired({ inputRequests: { name: question('Who are you?', { name: { type: 'string' } }) } })
      })
      server.registerTool(
        'narrate',
        { description: 'Asks for a name, then says how far it is.' },
        async ({ mcpReq }) => {
          const name = acceptedContent(mcpReq.inputResponses, 'name')?.['name']
          if (typeof name !== 'string') {
            return inputRequired({ inputRequests: { name: question('Who are you?', { name: { type: 'string' } }) } })
          }
          const progressToken = mcpReq._meta?.progressToken
          for (const progress of [1, 2]) {
            if (progressToken === undefined) break
            await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 2 } })
          }
          await mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data: `about ${name}` } })
          return text(`told ${name}`)
        },
      )
      server.registerTool('think', { description: 'Asks the client for a completion.' }, ({ mcpReq }) => {
        const thought = inputResponse(mcpReq.inputResponses, 'thought')
        if (thought.kind === 'sampling') return text(JSON.stringify(thought.result.content))
        const messages = [{ role: 'user' as const, content: { type: 'text' as const, text: 'Think.' } }]
        return inputRequired({
          inputRequests: { thought: { method: 'sampling/createMessage', params: { messages, maxTokens: 10 } } },
        })
      })
      server.registerResource('today', NOTE, {}, async () => ({ contents: [{ uri: NOTE, text: 'A note.' }] }))
      return server
    },
    { legacy: 'reject' },
  )
  const http = createServer(
    answering(async (req, res) => {
      const body = req.method === 'POST' ? await json(req) : undefined
      const response = await handler.fetch(webRequestOf(req, res), body === undefined ? {} : { parsedBody: body })
      await sendWebResponse(response, res)
    }),
  )
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    declared,
    tasks,
    update: (uri) => handler.notify.resourceUpdated(uri),
    async [Symbol.asyncDispose]() {
      await handler.close()
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
}
