import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client as ModernClient, StreamableHTTPClientTransport as ModernTransport } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'vitest'
import { runCastellanHere } from './castellan-here.ts'
import { agentYaml } from './executions.ts'
import { newDataDir } from './real-server.ts'
import { type SeenRequest, scriptedModels, startScriptedModel } from './scripted-model.ts'
import { type ServerHere, startServerHere } from './server-here.ts'
import { workflowYaml } from './workflows.ts'

type Failure = Readonly<{ error: Readonly<{ code: string; details: Readonly<Record<string, string>> }> }>

async function tool<T>(server: Pick<ServerHere, 'url'>, name: string, args: object): Promise<T> {
  const reply = await fetch(new URL(`/v1/tools/${name}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })
  return (await reply.json()) as T
}

/** The real program with one setting, where a person must approve every new task. */
async function withApprovals(
  setting: Readonly<Record<string, string>>,
  work: (server: ServerHere) => Promise<void>,
  config: object = {},
): Promise<void> {
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  const server = await startServerHere({ dataDir, env: setting })
  try {
    const policy = { toolId: 'task_create', conditions: [], action: 'require_approval' }
    await tool(server, 'create_tool_invocation_policy', policy)
    await work(server)
  } finally {
    await server.stop()
  }
}

const asked = async (server: ServerHere): Promise<Readonly<Record<string, string>>> => {
  const { error } = await tool<Failure>(server, 'task_create', { project: 'p', title: 't' })
  expect(error.code).toBe('ERR_APPROVAL_REQUIRED')
  return error.details
}
const isWithin = (time: string, ms: number): void => {
  const leftMs = Date.parse(time) - Date.now()
  expect(leftMs).toBeLessThanOrEqual(ms)
  expect(leftMs).toBeGreaterThan(ms / 2)
}

/** An agent makes a task, and says what it was told. */
const script = ({ messages }: SeenRequest) => {
  const told = messages.findLast(({ role }) => role === 'tool')
  if (told !== undefined) return { text: `told: ${String(told.content)}` }
  return { toolCalls: [{ name: 'task_create', arguments: { project: 'p', title: 't' } }] }
}

const name = { name: 'editor', version: '1' }
const yes = { action: 'accept', content: { decision: 'approve' } } as const

/** A client whose person approves; it is asked in a request of the server. */
async function oldClient({ url }: ServerHere, onAsked: () => void) {
  const client = new Client(name, { capabilities: { elicitation: {} } })
  client.setRequestHandler(ElicitRequestSchema, async () => {
    onAsked()
    return yes
  })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)) as Transport)
  return client
}

/** The same with the newest protocol, where the question is the answer to a call that is then made again. */
async function modernClient({ url }: ServerHere, onAsked: () => void) {
  const client = new ModernClient(name, {
    capabilities: { elicitation: { form: {} } },
    versionNegotiation: { mode: 'auto' },
  })
  client.setRequestHandler('elicitation/create', async () => {
    onAsked()
    return yes
  })
  await client.connect(new ModernTransport(new URL(url)))
  return client
}

/** Settings of approvals, each given to the real program. */
export const approvalEffects: Readonly<Record<string, () => Promise<void>>> = {
  async 'approvals.in_runs'() {
    await using model = await startScriptedModel(script)
    for (const [inRuns, told, requests] of [
      ['deny', 'runs do not ask a person', 0],
      ['fall_back', "needs a person's approval", 1],
    ] as const) {
      const isTold = async (server: ServerHere): Promise<void> => {
        const spec = '  task: { instruction: "Make a task." }\n  tools: [task_create]\n'
        await tool(server, 'aegis.agent.create', { manifest_yaml: agentYaml('asker', spec) })
        const { execution_id } = await tool<{ execution_id: string }>(server, 'aegis.task.execute', {
          ...{ agent_id: 'asker', intent: 'Make one.' },
        })
        const ended = await tool(server, 'aegis.task.wait', { execution_id, timeout_seconds: 30 })
        expect(ended).toMatchObject({ status: 'completed', last_output: expect.stringContaining(told) })
        expect((await tool<{ approvals: object[] }>(server, 'approval_list', {})).approvals).toHaveLength(requests)
      }
      await withApprovals({ CASTELLAN_APPROVALS_IN_RUNS: inRuns, MODEL_KEY: 'k' }, isTold, scriptedModels(model))
    }
  },
  async 'approvals.open_hours'() {
    await withApprovals({ CASTELLAN_APPROVALS_OPEN_HOURS: '2' }, async (server) => {
      isWithin((await asked(server))['expires_at']!, 2 * 3_600_000)
    })
  },
  async 'approvals.use_minutes'() {
    await withApprovals({ CASTELLAN_APPROVALS_USE_MINUTES: '5' }, async (server) => {
      const { approval_id: id } = await asked(server)
      await runCastellanHere(['approvals', 'approve', id!, '--data-dir', server.dataDir], { home: server.dataDir })
      const { approval } = await tool<{ approval: Record<string, string> }>(server, 'approval_get', { id })
      expect(approval['status']).toBe('approved')
      isWithin(approval['expires_at']!, 5 * 60_000)
    })
  },
  async 'approvals.four_eyes'() {
    await withApprovals({ CASTELLAN_APPROVALS_FOUR_EYES: 'true' }, async (server) => {
      const { approval_id: id } = await asked(server)
      const made = await runCastellanHere(['approvals', 'approve', id!, '--data-dir', server.dataDir], {
        home: server.dataDir,
      })
      expect(made.code).not.toBe(0)
      expect(made.stderr).toContain('approvals.four_eyes')
      const states = 'ASK: { kind: Human, prompt: "Go on?", transitions: [] }'
      await tool(server, 'aegis.workflow.create', { manifest_yaml: workflowYaml('asking', states) })
      const { execution_id } = await tool<{ execution_id: string }>(server, 'aegis.workflow.run', { name: 'asking' })
      const { error } = await tool<Failure>(server, 'aegis.workflow.signal', { execution_id, response: 'yes' })
      expect(error).toMatchObject({ code: 'ERR_PERMISSION_DENIED', message: expect.stringContaining('four_eyes') })
    })
  },
  async 'approvals.ask_client'() {
    for (const [isAsked, count] of [
      ['true', 1],
      ['false', 0],
    ] as const) {
      await withApprovals({ CASTELLAN_APPROVALS_ASK_CLIENT: isAsked }, async (server) => {
        for (const connect of [oldClient, modernClient]) {
          let questions = 0
          const client = await connect(server, () => questions++)
          const made = await client.callTool({ name: 'task_create', arguments: { project: 'p', title: 't' } })
          await client.close()
          expect([questions, made.isError ?? false]).toEqual([count, count === 0])
        }
      })
    }
  },
}
