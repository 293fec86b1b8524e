import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { manifestParses, type PublishedParse } from '../../src/domains/manifests/parse-cache.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { agentYaml } from '../support/executions.ts'
import { ended, register, start, workflowYaml } from '../support/workflows.ts'

/** A version is parsed when it is registered, and not again for each run. */
let app: TestApp
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
})
afterAll(() => app[Symbol.asyncDispose]())

let texts: string[] = []
const note = (message: unknown): void => void texts.push((message as PublishedParse).text)
beforeEach(() => {
  texts = []
  manifestParses.subscribe(note)
})
afterEach(() => void manifestParses.unsubscribe(note))
const parsesOf = (text: string): number => texts.filter((one) => one === text).length

it('a workflow is parsed once however often it runs, and its next version once', async () => {
  const yaml = (version: string) =>
    workflowYaml(
      'parsed-once',
      `A: { kind: System, command: update_blackboard, env: { said: "${version}" }, transitions: [{ condition: always, target: B }] }
B: { kind: System, command: update_blackboard, env: { again: "{{said}}" }, transitions: [] }`,
      { version },
    )
  for (const version of ['1.0.0', '1.1.0']) {
    await register(app, yaml(version))
    for (let run = 0; run < 3; run++) {
      const { status, blackboard } = await ended(app, await start(app, 'parsed-once'))
      expect([status, blackboard['again']]).toEqual(['completed', version])
    }
    await app.ask('workflow_info', { name: 'parsed-once' })
    expect(parsesOf(yaml(version))).toBe(1)
  }
  expect(parsesOf(yaml('1.0.0'))).toBe(1)
})

it('an agent is parsed once however often it is executed', async () => {
  const yaml = agentYaml('parsed-once', '  task: { instruction: "Answer once." }\n')
  await app.ask('aegis.agent.create', { manifest_yaml: yaml })
  for (let run = 0; run < 3; run++) {
    const { execution_id } = await app.ask<{ execution_id: string }>('aegis.task.execute', { agent_id: 'parsed-once' })
    await app.ask('aegis.task.wait', { execution_id, timeout_seconds: 30 })
  }
  await app.ask('agent_info', { agent_id: 'parsed-once' })
  expect(parsesOf(yaml)).toBe(1)
})
