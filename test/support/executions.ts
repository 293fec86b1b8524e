import { createToolInvoker } from '../../src/app/wiring/open-tool-invoker.ts'
import { AppError } from '../../src/contract/app-error.ts'
import type { Database } from '../../src/contract/database.ts'
import { localOwner, type Principal } from '../../src/contract/principal.ts'
import { parseAgentManifest } from '../../src/domains/agents/manifest.ts'
import type {
  ExecutionDeps,
  ExecutionInput,
  ExecutionOutput,
  ResolvedAgent,
} from '../../src/domains/executions/ports.ts'
import { createExecutionProgram } from '../../src/domains/executions/program.ts'
import { createContextRegistry } from '../../src/domains/security-contexts/shipped-contexts.ts'
import type { Run } from '../../src/engine/ports.ts'
import type { Json } from '../../src/kernel/canonical-json.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { callProvider } from '../../src/models/call-provider.ts'
import { createModels } from '../../src/models/create-models.ts'
import type { TestApp } from './app.ts'
import { openEngine, type TestEngine } from './engine.ts'
import { noOptimization, noStoredKeys, unlimitedAccounting } from './model-accounting.ts'
import type { ScriptedModel } from './scripted-model.ts'

/** The loop on a real engine and the real tools of an app, with a scripted model and agents that a test writes. */
export type Loop = Readonly<{
  engine: TestEngine
  execute(agent: string, more?: Partial<ExecutionInput>, principal?: Principal): Promise<Run>
  /** The run at its end. */
  finish(agent: string, more?: Partial<ExecutionInput>, principal?: Principal): Promise<Run & { text: string }>
  eventTypes(id: string): Promise<string[]>
  sent: { url: string; body: string; headers: Readonly<Record<string, string>> }[]
}>

export type LoopRequest = Readonly<{
  agents: Readonly<Record<string, string>>
  model?: ScriptedModel
  /** By name, asked each time. */
  subAgents?: () => Readonly<Record<string, readonly string[]>>
  deps?: Partial<ExecutionDeps>
  bootId?: string
}>

/** A manifest with `spec` in YAML, two spaces deep. */
export const agentYaml = (name: string, spec: string): string =>
  `apiVersion: 100monkeys.ai/v1\nkind: Agent\nmetadata:\n  name: ${name}\n  version: "1.0.0"\nspec:\n  runtime: { language: python, version: "3.11" }\n${spec}`

export async function openLoop(app: TestApp, request: LoopRequest): Promise<Loop> {
  const database = (await app.app.ready).database as Database
  const engine = openEngine(database, { bootId: request.bootId ?? 'test-boot' })
  const invoker = createToolInvoker(app.app.views, app.config.mode, async (principal) => principal)
  invoker.connect((caller, name, args, options) => app.app.host.call(caller, name, args, options))
  const agents = new Map(
    Object.entries(request.agents).map(([name, yaml]): [string, ResolvedAgent] => [
      name,
      { id: `id-of-${name}`, name, version: '1.0.0', manifest: parseAgentManifest(yaml).manifest },
    ]),
  )
  const find = (name: string): ResolvedAgent => {
    const found = agents.get(name)
    if (found === undefined) throw new AppError('ERR_AGENT_NOT_FOUND', `there is no agent '${name}'`)
    return found
  }
  const sent: Loop['sent'] = []
  const { program, finalizer } = createExecutionProgram({
    engine,
    agents: {
      resolve: async (_read, _principal, name) => find(name.replace(/^id-of-/, '')),
      resolvePlatform: async (_read, name) => find(name),
      subAgentsOf: async (_read, _principal, id) =>
        (request.subAgents?.()[id.slice('id-of-'.length)] ?? []).map((name) => ({
          id: find(name).id,
          slug: name,
          name,
          description: null,
        })),
    },
    invoker,
    approvals: { request: async (_tx, _tenant, request) => request },
    models: modelsOf(request.model),
    http: {
      async send({ url, body, headers }) {
        sent.push({ url, body, headers })
        return { status: url.endsWith('/refuse') ? 400 : 200, body: 'delivered' }
      },
    },
    values: { secret: (name) => (name === 'token' ? 's3cret' : undefined), config: () => undefined },
    contexts: createContextRegistry([]),
    imageOf: async () => 'host',
    allowsInternet: false,
    judging: { skip: [], always: [] },
    snapshots: false,
    read: database.read,
    clock: systemClock,
    ...request.deps,
  })
  engine.register('execution', program, finalizer)
  const execute: Loop['execute'] = (name, more = {}, principal = localOwner) => {
    const { id, version, manifest } = find(name)
    const input: ExecutionInput = {
      agent: { id, name, version },
      manifest,
      intent: null,
      input: null,
      contextOverrides: {},
      role: 'worker',
      workspaceId: null,
      keepWorkspace: false,
      untilMs: null,
      ...more,
    }
    return engine.run({ subjectId: id, subjectName: name, input: input as unknown as Json, principal })
  }
  return {
    engine,
    sent,
    execute,
    async finish(name, more, principal) {
      const run = await engine.end((await execute(name, more, principal)).id)
      return { ...run, text: (run.output as unknown as ExecutionOutput | null)?.text ?? '' }
    },
    eventTypes: async (id) => (await engine.journal(id)).map(({ type }) => type),
  }
}

function modelsOf(model: ScriptedModel | undefined) {
  const provider = {
    name: 'scripted',
    type: 'openai',
    endpoint: `${model?.url}/v1`,
    apiKey: 'k',
    isStreamed: true,
    models: ['default', 'judge'].map((alias) => ({
      alias,
      model: alias,
      maxOutputTokens: null,
      temperature: null,
      inputCost: 1,
      outputCost: 1,
    })),
  } as const
  return createModels({
    settings: {
      providers: model === undefined ? [] : [provider],
      defaultProvider: null,
      fallbackProvider: null,
      retriesMax: 1,
      retryDelayMs: 1,
      overallTimeoutMs: 30_000,
    },
    ask: callProvider,
    accounting: unlimitedAccounting(),
    storedKeys: noStoredKeys,
    optimization: noOptimization,
    routing: async () => [],
    clock: systemClock,
  })
}
