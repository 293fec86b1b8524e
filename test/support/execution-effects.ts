import { writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect } from 'vitest'
import { agentYaml } from './executions.ts'
import { newDataDir } from './real-server.ts'
import { type Line, type SeenRequest, startScriptedModel } from './scripted-model.ts'
import { startServerHere } from './server-here.ts'

type Answer = (request: SeenRequest, position: number) => Line | Promise<Line>
type Ran = Readonly<{ ends: readonly Readonly<Record<string, unknown>>[]; requests: readonly SeenRequest[] }>
type AccessRequest = Readonly<{
  answer: Answer
  /** Beside the provider `first`, which the scripted model is. */
  models?: (url: string) => object
  config?: object
  agents?: Readonly<Record<string, string>>
  /** The agents that are run, one after the other, or at once. */
  run?: readonly string[]
  during?: (ask: (tool: string, args: object) => Promise<Record<string, unknown>>) => Promise<void>
}>

const secrets = { MODEL_KEY: 'k', MY_TOKEN: 'token-of-mine' }
const plain = agentYaml('plain', '  task: { instruction: "Answer." }\n')

/** Runs agents in the real program, with its models in a configuration file, and tells how they ended. */
async function ran({
  answer,
  models,
  config,
  agents = { plain },
  run = ['plain'],
  during,
}: AccessRequest): Promise<Ran> {
  // `env:NAME` is looked up in the environment of the process.
  Object.assign(process.env, secrets)
  const model = await startScriptedModel(answer)
  const dataDir = newDataDir()
  const input = { retry_delay_ms: 1, ...models?.(model.url) }
  const providers = [providerAt('first', model.url)]
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers, ...input }, ...config }))
  const server = await startServerHere({ dataDir, env: { CASTELLAN_WORKSPACES_STORE_GB: '0' } })
  const ask = async (tool: string, args: object) => {
    const reply = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(args),
    })
    return (await reply.json()) as Record<string, unknown>
  }
  try {
    for (const manifest_yaml of Object.values(agents)) await ask('aegis.agent.create', { manifest_yaml })
    const ids: unknown[] = []
    for (const agent_id of run) ids.push((await ask('aegis.task.execute', { agent_id }))['execution_id'])
    await during?.(ask)
    const ends = await Promise.all(
      ids.map((execution_id) => ask('aegis.task.wait', { execution_id, timeout_seconds: 30 })),
    )
    return { ends, requests: model.requests }
  } finally {
    await model.stop()
    await server.stop()
    await rm(dataDir, { recursive: true, force: true })
    for (const name of Object.keys(secrets)) delete process.env[name]
  }
}

const providerAt = (name: string, url: string, alias = 'default') => ({
  name,
  type: 'openai',
  endpoint: `${url}/v1`,
  api_key: 'env:MODEL_KEY',
  models: [{ alias, model: `model-of-${name}` }],
})

const always =
  (line: Line): Answer =>
  () =>
    line

/** What a destination of an agent's result was sent. */
async function delivered(headers: string, executions: object): Promise<IncomingHttpHeaders | undefined> {
  let seen: IncomingHttpHeaders | undefined
  const destination = createServer((request, response) => {
    seen = request.headers
    response.end('ok')
  })
  await new Promise<void>((resolve) => destination.listen(0, '127.0.0.1', resolve))
  const { port } = destination.address() as AddressInfo
  const webhook = `{ url: "http://127.0.0.1:${port}/", headers: { x-value: "${headers}" } }`
  const spec = `  task: { instruction: "Answer." }\n  execution:\n    mode: one-shot\n    delivery:\n      destinations:\n        - { name: d, condition: always, type: webhook, webhook: ${webhook} }\n`
  const web = { allow_private_addresses: ['127.0.0.1'] }
  try {
    await ran({
      answer: always({ text: 'x' }),
      config: { executions, web },
      agents: { plain: agentYaml('plain', spec) },
    })
  } finally {
    destination.close()
    destination.closeAllConnections()
  }
  return seen
}

/** How often a judge was asked about a call of `tool`. */
async function judged(tool: string, judging: object): Promise<number> {
  const rule = '{ type: semantic, judge_agent: judge, criteria: c }'
  const spec = `  task: { instruction: "Work." }\n  tools: [${tool}]\n  execution: { mode: one-shot, tool_validation: [${rule}] }\n`
  const { requests } = await ran({
    answer(request) {
      if (request.text.includes('Judge.')) return { text: '{"score":1,"confidence":1,"reasoning":""}' }
      if (request.messages.some(({ role }) => role === 'tool')) return { text: 'done' }
      const args = tool === 'aegis.task.cancel' ? { execution_id: 'none' } : {}
      return { toolCalls: [{ name: tool.replaceAll('.', '_'), arguments: args }] }
    },
    config: { judging },
    agents: { judge: agentYaml('judge', '  task: { instruction: "Judge." }\n'), worker: agentYaml('worker', spec) },
    run: ['worker'],
  })
  return requests.filter(({ text }) => text.includes('Judge.')).length
}

/** Names of the snapshots that are there after an execution with files whose only iteration was not accepted. */
async function snapshotsLeft(executions?: object): Promise<readonly string[]> {
  const validation = '[{ type: regex, pattern: "^good" }]'
  const spec = `  task: { instruction: "Work." }\n  tools: [fs.list]\n  execution: { max_iterations: 1, validation: ${validation} }\n`
  const names: string[] = []
  await ran({
    answer: always({ text: 'bad' }),
    config: { ...(executions && { executions }) },
    agents: { plain: agentYaml('plain', spec) },
    async during(ask) {
      const listed = (await ask('aegis.task.list', {})) as { executions: { id: string }[] }
      await ask('aegis.task.wait', { execution_id: listed.executions[0]!.id, timeout_seconds: 40 })
      const { workspaces } = (await ask('workspace_list', { state_filter: 'archived' })) as {
        workspaces: { workspace_id: string }[]
      }
      for (const { workspace_id } of workspaces) {
        const answer = await ask('snapshot', { workspace_id, action: 'list' })
        names.push(...(answer as { snapshots: { name: string }[] }).snapshots.map(({ name }) => name))
        await ask('workspace_destroy', { workspace_id })
      }
    },
  })
  return names
}

/** Settings of models, executions and judging, each given to the real program. */
export const executionEffects: Readonly<Record<string, () => Promise<void>>> = {
  async 'models.providers'() {
    const { ends, requests } = await ran({ answer: always({ text: 'hello' }) })
    expect(ends[0]).toMatchObject({ status: 'completed', last_output: 'hello' })
    expect(requests[0]).toMatchObject({ model: 'model-of-first', isStream: true })
    const models = (url: string) => ({ providers: [{ ...providerAt('first', url), stream: false }] })
    const whole = await ran({ answer: always({ text: 'hello' }), models })
    expect(whole.ends[0]).toMatchObject({ status: 'completed', last_output: 'hello' })
    expect(whole.requests[0]!.isStream).toBe(false)
  },
  async 'models.default_provider'() {
    const models = (url: string) => ({
      providers: [providerAt('first', url), providerAt('second', url)],
      default_provider: 'second',
    })
    expect((await ran({ answer: always({ text: 'x' }), models })).requests[0]!.model).toBe('model-of-second')
  },
  async 'models.fallback_provider'() {
    const models = (url: string) => ({
      providers: [providerAt('first', url), providerAt('second', url, 'other')],
      fallback_provider: 'second',
    })
    const answer: Answer = ({ model }) => (model === 'model-of-first' ? { status: 401 } : { text: 'from the second' })
    expect((await ran({ answer, models })).ends[0]).toMatchObject({ last_output: 'from the second' })
  },
  async 'models.max_retries'() {
    const tries = async (max_retries: number) =>
      (await ran({ answer: always({ status: 503 }), models: () => ({ max_retries }), agents: { plain: oneShot } }))
        .requests.length
    expect(await tries(0)).toBe(1)
    expect(await tries(2)).toBe(3)
  },
  async 'models.retry_delay_ms'() {
    const models = () => ({ retry_delay_ms: 60_000, overall_timeout_secs: 20, max_retries: 3 })
    const { ends, requests } = await ran({ answer: always({ status: 503 }), models, agents: { plain: oneShot } })
    expect(requests).toHaveLength(1)
    expect(ends[0]!['last_error']).toContain('cannot answer at present')
  },
  async 'models.overall_timeout_secs'() {
    const models = () => ({ overall_timeout_secs: 1 })
    const { ends } = await ran({ answer: () => new Promise(() => {}), models, agents: { plain: oneShot } })
    expect(ends[0]!['last_error']).toContain('did not answer in time')
  },
  async 'executions.max_concurrent'() {
    const held = Promise.withResolvers<Line>()
    const statuses: unknown[] = []
    await ran({
      answer: () => held.promise,
      config: { executions: { max_concurrent: 1 } },
      run: ['plain', 'plain'],
      async during(ask) {
        const { executions } = (await ask('aegis.task.list', {})) as { executions: { status: string }[] }
        statuses.push(...executions.map(({ status }) => status))
        held.resolve({ text: 'x' })
      },
    })
    expect(statuses).toContain('pending')
  },
  async 'executions.snapshots'() {
    expect(await snapshotsLeft({ snapshots: false })).toEqual([])
    expect(await snapshotsLeft()).toEqual([expect.stringMatching(/^iteration-1-/)])
  },
  async 'executions.secrets'() {
    const headers = await delivered('secret:token', { secrets: ['token env:MY_TOKEN'] })
    expect(headers?.['x-value']).toBe('token-of-mine')
  },
  async 'executions.values'() {
    expect((await delivered('config:region', { values: ['region=north'] }))?.['x-value']).toBe('north')
  },
  async 'judging.skip'() {
    expect(await judged('aegis.task.cancel', {})).toBe(1)
    expect(await judged('aegis.task.cancel', { skip: ['aegis.task.cancel'] })).toBe(0)
  },
  async 'judging.always'() {
    expect(await judged('aegis.task.list', {})).toBe(0)
    expect(await judged('aegis.task.list', { always: ['aegis.task.list'] })).toBe(1)
  },
}

const oneShot = agentYaml('plain', '  task: { instruction: "Answer." }\n  execution: { mode: one-shot }\n')
