import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { AppError } from '../../src/contract/app-error.ts'
import { limits } from '../../src/contract/limits.ts'
import { rightsOf } from '../../src/contract/permissions.ts'
import { localOwner, type Principal } from '../../src/contract/principal.ts'
import { parseAgentManifest } from '../../src/domains/agents/manifest.ts'
import { delegationName } from '../../src/domains/executions/delegation.ts'
import type { ExecutionDeps } from '../../src/domains/executions/ports.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { agentYaml, type Loop, type LoopRequest, openLoop } from '../support/executions.ts'
import { type Line, type ScriptedModel, type SeenRequest, startScriptedModel } from '../support/scripted-model.ts'

/** Agents that hand tasks on to others, with a scripted model and a real engine. */
let app: TestApp
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
})
afterAll(() => app[Symbol.asyncDispose]())

const agent = (name: string) => agentYaml(name, `  task: { system_prompt: "You are ${name}." }\n`)
const agentsOf = (...names: string[]) => Object.fromEntries(names.map((name) => [name, agent(name)]))
const handOn = (name: string, message: unknown): Line => ({
  toolCalls: [{ name: `agent__${name}`, arguments: { message } }],
})
const whoIs = ({ messages }: SeenRequest): string => /You are (\S+)\./.exec(String(messages[0]!.content))![1]!
const lastRole = ({ messages }: SeenRequest): string => messages.at(-1)!.role
const lastText = ({ messages }: SeenRequest): string => String(messages.at(-1)!.content)

async function open(
  request: Omit<LoopRequest, 'model'>,
  script: (request: SeenRequest) => Line,
): Promise<{ loop: Loop; model: ScriptedModel }> {
  const model = await startScriptedModel(script)
  const loop = await openLoop(app, { ...request, model })
  onTestFinished(async () => {
    await loop.engine.close()
    await model.stop()
  })
  return { loop, model }
}

describe('an agent with sub-agents', () => {
  test('hands a task on, and gets the text of its end', async () => {
    const { loop, model } = await open(
      { agents: agentsOf('lead', 'helper'), subAgents: () => ({ lead: ['helper'] }) },
      (seen) => {
        if (whoIs(seen) === 'helper') return { text: 'seven' }
        return lastRole(seen) === 'tool' ? { text: `It is ${lastText(seen)}.` } : handOn('helper', 'Three and four?')
      },
    )
    const run = await loop.finish('lead', { intent: 'Add.' })
    expect(run).toMatchObject({ status: 'completed', text: 'It is seven.' })
    expect(model.requests.map((seen) => [whoIs(seen), lastText(seen)])).toEqual([
      ['lead', 'Add.'],
      ['helper', 'Three and four?'],
      ['lead', 'seven'],
    ])
    expect(await loop.eventTypes(run.id)).toContain('child_execution_completed')
  })

  test('goes round in no circle, and no deeper than the bound', async () => {
    const names = Array.from({ length: limits.delegationDepthMax + 2 }, (_, index) => `level-${index}`)
    const next = (name: string) => names[names.indexOf(name) + 1] ?? names[0]!
    const subAgents = () => Object.fromEntries(names.map((name) => [name, [next(name), names[0]!]]))
    const answers: string[] = []
    const { loop } = await open({ agents: agentsOf(...names), subAgents }, (seen) => {
      if (lastRole(seen) !== 'tool') return handOn(next(whoIs(seen)), 'Go on.')
      answers.push(`${whoIs(seen)}: ${lastText(seen)}`)
      return { text: 'done' }
    })
    expect(await loop.finish(names[0]!, { intent: 'Go.' })).toMatchObject({ status: 'completed' })
    expect(answers).toHaveLength(limits.delegationDepthMax + 1)
    expect(answers[0]).toMatch(
      new RegExp(`^level-${limits.delegationDepthMax}: \\{"error":"The tool .* is not available`),
    )
    const { loop: round } = await open(
      { agents: agentsOf('a', 'b'), subAgents: () => ({ a: ['b'], b: ['a'] }) },
      (seen) => {
        if (lastRole(seen) === 'tool') return { text: lastText(seen) }
        return handOn(whoIs(seen) === 'a' ? 'b' : 'a', 'You first.')
      },
    )
    expect((await round.finish('a', { intent: 'Go.' })).text).toContain("The tool 'agent__a' is not available")
  })

  test('is refused a sub-agent that its owner does not see, when it is offered and when it is called', async () => {
    let seen = ['helper']
    const script = (request: SeenRequest): Line => {
      seen = []
      return lastRole(request) === 'tool' ? { text: lastText(request) } : handOn('helper', 'Please.')
    }
    const agents = agentsOf('lead', 'helper')
    const resolved = (name: string) => ({
      id: `id-of-${name}`,
      name,
      version: '1.0.0',
      manifest: parseAgentManifest(agents[name]!).manifest,
    })
    const directory: ExecutionDeps['agents'] = {
      async resolve(_read, _principal, id) {
        const name = id.replace('id-of-', '')
        if (!seen.includes(name)) throw new AppError('ERR_AGENT_NOT_FOUND', 'there is none')
        return resolved(name)
      },
      resolvePlatform: async (_read, name) => resolved(name),
      subAgentsOf: async () => seen.map((name) => ({ id: `id-of-${name}`, slug: name, name, description: null })),
    }
    const { loop } = await open({ agents, deps: { agents: directory } }, script)
    const called = await loop.finish('lead', { intent: 'Go.' })
    expect(called.text).toContain('The agent no longer exists.')
    const offered = await loop.finish('lead', { intent: 'Go.' })
    expect(offered.text).toContain("'agent__helper' is not available")
  })

  test('needs agent:execute of the caller that started it', async () => {
    const { loop } = await open(
      { agents: agentsOf('lead', 'helper'), subAgents: () => ({ lead: ['helper'] }) },
      (seen) => (lastRole(seen) === 'tool' ? { text: lastText(seen) } : handOn('helper', 'Please.')),
    )
    const reader: Principal = { ...localOwner, ...rightsOf('member', ['task:read']) }
    expect((await loop.finish('lead', { intent: 'Go.' }, reader)).text).toContain('is not available')
  })

  test.each([[''], [7], [undefined]])('is told what is wrong with the message %j', async (message) => {
    const { loop } = await open(
      { agents: agentsOf('lead', 'helper'), subAgents: () => ({ lead: ['helper'] }) },
      (seen) => (lastRole(seen) === 'tool' ? { text: lastText(seen) } : handOn('helper', message)),
    )
    expect((await loop.finish('lead', { intent: 'Go.' })).text).toContain(
      'message is required: it says what the agent should do',
    )
  })

  test('learns of a failure below it', async () => {
    const { loop } = await open(
      { agents: agentsOf('lead', 'helper'), subAgents: () => ({ lead: ['helper'] }) },
      (seen) => {
        if (whoIs(seen) === 'helper') return { status: 401 }
        return lastRole(seen) === 'tool' ? { text: lastText(seen) } : handOn('helper', 'Please.')
      },
    )
    expect((await loop.finish('lead', { intent: 'Go.' })).text).toMatch(/Tool execution error: The agent failed/)
  })
})

describe('the name of a delegation tool', () => {
  test('has 64 characters at most, and tells agents of one slug apart', () => {
    expect(delegationName({ id: 'x', slug: 'helper' }, new Set())).toBe('agent__helper')
    const second = delegationName({ id: 'y', slug: 'helper' }, new Set(['agent__helper']))
    expect(second).toMatch(/^agent__helper_[0-9a-f]{8}$/)
    const long = delegationName({ id: 'z', slug: 'a'.repeat(63) }, new Set())
    expect(long).toHaveLength(64)
    expect(delegationName({ id: 'w', slug: 'a'.repeat(63) }, new Set([long]))).not.toBe(long)
  })
})
