import type { Database } from '../../contract/database.ts'
import type { ToolInvoker } from '../../contract/tool-invoker.ts'
import type { AgentService } from '../../domains/agents/service.ts'
import type { Models } from '../../domains/executions/model.ts'
import type { ExecutionDeps } from '../../domains/executions/ports.ts'
import type { ExecutionService } from '../../domains/executions/service.ts'
import { type AuthoringService, createAuthoringService } from '../../domains/intents/authoring.ts'
import { createIntentService, type IntentService } from '../../domains/intents/service.ts'
import type { Engine, Finalizer, Program } from '../../engine/ports.ts'
import type { AppDeps } from '../build-app.ts'

type OpenedIntents = Readonly<{ intents: IntentService; authoring: AuthoringService }>

type Parts = Readonly<{
  engine: Engine
  database: Database
  agents: AgentService
  executions: ExecutionService
  models: Models
  invoker: ToolInvoker
  imageOf: ExecutionDeps['imageOf']
}>

/** From requests in plain words to agents, workflows and results. Its code is loaded with the first intent. */
export function openIntents(deps: AppDeps, parts: Parts): OpenedIntents {
  const { engine, agents, executions, models, invoker, database } = parts
  let loaded: Promise<Readonly<{ program: Program; finalizer: Finalizer }>> | undefined
  const load = () => {
    loaded ??= import('../../domains/intents/program.ts').then(({ createIntentProgram }) =>
      createIntentProgram({
        invoker,
        models,
        agents,
        imageOf: parts.imageOf,
        clock: deps.clock,
        read: database.read,
        runs: engine,
      }),
    )
    return loaded
  }
  engine.register(
    'intent',
    async (run, steps) => (await load()).program(run, steps),
    async (run, steps, status) => (await load()).finalizer(run, steps, status),
  )
  return {
    intents: createIntentService({ engine, executions, agents, models }),
    authoring: createAuthoringService({
      engine,
      executions,
      agents,
      models,
      async alike(call, kind, prompt) {
        const query = { query: prompt.slice(0, 2_000).toWellFormed(), limit: 3, min_score: 0 }
        const args = { ...query, include_platform_templates: false }
        const answer = await invoker.call(call.principal, `aegis.${kind}.search`, args, {
          signal: call.signal,
          transport: 'engine',
        })
        if (answer.isError) return []
        return (answer.value as unknown as { results: { name: string; score: number }[] }).results
      },
    }),
  }
}
