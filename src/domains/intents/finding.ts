import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { ResolvedAgent } from '../agents/service.ts'
import { hasModel } from '../executions/model.ts'
import type { ExecutionOutput } from '../executions/ports.ts'
import { authoring, authorOf, shippedAgent } from './authors.ts'
import { languageRules } from './languages.ts'
import type { FoundAgent, IntentBoard, IntentInput, IntentOutput } from './ports.ts'
import type { CallContext, StateHandlers } from './program.ts'
import { agentPrompt } from './prompts.ts'
import type { Move } from './visit-counter.ts'
import { createWorkbench } from './workbench.ts'

/** The lowest similarity at which an existing agent is used. */
const SCORE_MIN = 0.75
const CANDIDATES_MAX = 5
/** How many of the latest intents are searched for the same one. */
const PAST_INTENTS_MAX = 200
/** Agents that assess the work of others and do none themselves. */
const otherRoles: readonly (string | undefined)[] = ['judge', 'generator', 'formatter']

type Found = Readonly<{ id: string; labels: Readonly<Record<string, string>> }>

/** Finds an agent of the caller for an intent, or generates one. */
export function createFinding({ deps, run, input, steps, board }: CallContext) {
  const { principal } = run
  let chosen: ResolvedAgent | undefined

  function take(agent: ResolvedAgent, isReused: boolean): void {
    chosen = agent
    board.agent = { id: agent.id, name: agent.name, version: agent.version }
    board.reused_existing_agent = isReused
  }

  /** The pipeline does nothing for its caller that the caller could not have done step by step. */
  const mayCall = (...tools: readonly string[]): boolean =>
    deps.invoker.describe(principal, tools).length === tools.length

  /** The best match that can write the program, has a model, and is not meant for another language. */
  async function bestOf(found: readonly Found[]): Promise<FoundAgent | null> {
    for (const { id, labels } of found) {
      if (otherRoles.includes(labels['role']) || (labels['language'] ?? input.language) !== input.language) continue
      const agent = await deps.agents.resolve(deps.read, principal, id)
      if (hasModel(deps.models, agent.manifest.runtime.model)) return agent as FoundAgent
    }
    return null
  }

  /** The agent that was generated for the same intent, if it still exists and can run. */
  async function madeBefore(): Promise<FoundAgent | null> {
    const filter = { kind: 'intent' as const, owner: run.owner, limit: PAST_INTENTS_MAX }
    const shipped = (await deps.agents.template(languageRules[input.language].executor)).id
    for (const { id, input: intentInput, output } of await deps.runs.list(deps.read, run.tenant, filter)) {
      const { intent, language } = intentInput as unknown as IntentInput
      const agent = (output as unknown as IntentOutput | null)?.blackboard['agent'] as IntentBoard['agent'] | undefined
      const isSame = id !== run.id && intent.trim() === input.intent.trim() && language === input.language
      const made = isSame ? agent?.id : undefined
      const found = made !== undefined && made !== shipped ? await stillThere(made) : null
      if (found !== null) return found
    }
    return null
  }

  async function stillThere(id: string): Promise<FoundAgent | null> {
    try {
      const agent = await deps.agents.resolve(deps.read, principal, id)
      return hasModel(deps.models, agent.manifest.runtime.model) ? (agent as FoundAgent) : null
    } catch (error) {
      if (error instanceof AppError && error.code === 'ERR_AGENT_NOT_FOUND') return null
      throw error
    }
  }

  async function discover(): Promise<Move> {
    // An unusable workspace is reported before anything is created.
    if (input.volumeId !== null) await createWorkbench(deps, run, input, steps).open()
    const found = await steps.once<FoundAgent | null>('agent', async () => {
      if (!mayCall('aegis.agent.search', 'aegis.task.execute')) return { result: null }
      const made = await madeBefore()
      if (made !== null) return { result: made }
      const answer = await deps.invoker.call(
        principal,
        'aegis.agent.search',
        {
          query: input.intent.slice(0, limits.searchQueryCharsMax).toWellFormed(),
          limit: CANDIDATES_MAX,
          min_score: SCORE_MIN,
          status: 'active',
          include_platform_templates: false,
        },
        { signal: steps.signal, transport: 'engine' },
      )
      // A caller that may not search has no matches.
      if (answer.isError) return { result: null }
      return { result: await bestOf((answer.value as unknown as { results: Found[] }).results) }
    })
    if (found === null) return { to: 'agent_generation' }
    take(found, true)
    return { to: 'code_generation' }
  }

  /** The shipped agent of the language. */
  async function useShipped(): Promise<Move> {
    const { executor } = languageRules[input.language]
    const shipped = await steps.once('shipped-agent', async () => ({
      result: (await shippedAgent(deps, executor)) as FoundAgent,
    }))
    take(shipped, true)
    return { to: 'code_generation' }
  }

  async function generate(visit: number): Promise<Move> {
    if (steps.recorded('author') === undefined && !mayCall('aegis.agent.generate')) return await useShipped()
    const author = await steps.once('author', async () => ({ result: (await authorOf(deps, 'agent')) as FoundAgent }))
    const { id, name, version } = author
    const outcome = await steps.child(`agent-${visit}`, {
      kind: 'execution',
      subjectId: id,
      subjectName: name,
      subjectVersion: version,
      input: authoring(author, 'agent', agentPrompt(input)) as unknown as Json,
    })
    if (outcome.status !== 'completed') {
      const reason = outcome.error?.message ?? `the author was ${outcome.status}`
      steps.note({ type: 'agent_generation_failed', payload: { reason } })
      return await useShipped()
    }
    const { agent_id } = JSON.parse((outcome.output as unknown as ExecutionOutput).text) as { agent_id: string }
    const made = await steps.once(`made-agent-${visit}`, async () => ({
      result: (await deps.agents.resolve(deps.read, principal, agent_id)) as FoundAgent,
    }))
    take(made, false)
    return { to: 'code_generation' }
  }

  return {
    handlers: { agent_discovery: discover, agent_generation: generate } satisfies Partial<StateHandlers>,
    agent(): ResolvedAgent {
      if (chosen === undefined) throw new Error('no agent was chosen')
      return chosen
    },
  }
}
