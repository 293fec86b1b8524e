import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/kernel/clock.ts'
import type { TestApp } from '../support/app.ts'
import { agentYaml, openLoop } from '../support/executions.ts'
import { inTurn, startScriptedModel } from '../support/scripted-model.ts'
import { ended, eventsOf, register, runStates, start, untilEvent, workflowYaml } from '../support/workflows.ts'
import { openWorkspaceApp, rowsFor } from '../support/workspaces.ts'

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const writing = (path: string, bytes: number): string => `head -c ${bytes} /dev/zero > ${path}`
const twoSteps = (path: string, first: number, second: number): string =>
  `A: { kind: System, command: "mkdir -p /volumes/data; ${writing(path, first)}", transitions: [{ condition: always, target: B }] }
B: { kind: ContainerRun, name: b, image: host, command: ["sh", "-c", "${writing(path, second)}"], volumes: [{ name: data, mount_path: /volumes/data }], transitions: [{ condition: always, target: C }] }
C: { kind: System, command: "true", transitions: [] }`

describe('the sizes of a workflow’s volumes', () => {
  it.each([
    [
      'shared_volumes: [{ name: data, size_limit_bytes: 100000 }]',
      '/volumes/data/file',
      'shared_volumes[0].size_limit_bytes',
    ],
    ['workspace: { size_limit_mb: 1 }, shared_volumes: [{ name: data }]', '/workspace/file', 'workspace.size_limit_mb'],
  ])('end the run when a state has left too much: %s', async (storage, path, field) => {
    const name = `too-much-${field.replaceAll(/[^a-z]+/g, '-')}`
    const run = await runStates(app, name, twoSteps(path, 10_000, 2_000_000), { spec: `storage: { ${storage} }` })
    expect(run).toMatchObject({
      status: 'failed',
      current_state: 'B',
      error: { code: 'ERR_QUOTA_EXCEEDED', details: { field: `spec.storage.${field}` } },
    })
    expect(run.error!.message).toMatch(/has 20\d{5} bytes, more than its limit of \d+; write less, or raise the limit/)
    const events = await eventsOf(app, run.execution_id)
    expect(events.filter(({ event_type }) => event_type === 'volumes_measured')).toHaveLength(2)
    expect(await rowsFor(app)).toEqual([])
  })

  it('let a run pass that stays within them, and measure nothing where there is no limit', async () => {
    const storage =
      'storage: { workspace: { size_limit_mb: 5 }, shared_volumes: [{ name: data, size_limit_bytes: 100000 }] }'
    const states = twoSteps('/volumes/data/file', 100, 1_000)
    expect(await runStates(app, 'within', states, { spec: storage })).toMatchObject({ status: 'completed' })
    const free = await runStates(app, 'free', states, { spec: 'storage: { shared_volumes: [{ name: data }] }' })
    expect((await eventsOf(app, free.execution_id)).map(({ event_type }) => event_type)).not.toContain(
      'volumes_measured',
    )
  })
})

describe('ttl_hours of a workflow’s workspace', () => {
  it('has the files go while the run still waits for a person, and the next state begins with none', async () => {
    const states = `A: { kind: System, command: "echo x > file", transitions: [{ condition: always, target: ASK }] }
ASK: { kind: Human, prompt: q, timeout: 1h, transitions: [{ condition: always, target: B }] }
B: { kind: System, command: "ls | wc -l", transitions: [] }`
    await register(app, workflowYaml('short-lived', states, { spec: 'storage: { workspace: { ttl_hours: 0.001 } }' }))
    const id = await start(app, 'short-lived')
    await untilEvent(app, id, 'wait_began')
    expect(await rowsFor(app)).toHaveLength(1)
    const asked = await app.ask<{ waiting_for: { expires_at: string } }>('aegis.workflow.status', { execution_id: id })
    await untilEvent(app, id, 'workspace_expired')
    expect(await rowsFor(app)).toEqual([])
    const again = () => app.ask<typeof asked>('aegis.workflow.status', { execution_id: id })
    await expect.poll(async () => (await again()).waiting_for?.expires_at).toBe(asked.waiting_for.expires_at)
    await app.ask('aegis.workflow.signal', { execution_id: id, response: 'go' })
    expect(await ended(app, id)).toMatchObject({ status: 'completed', blackboard: { B: { stdout: '0\n' } } })
    expect(await rowsFor(app)).toEqual([])
  })

  it.each(['storage_class: persistent', 'volume_id: mine'])('is refused beside %s', async (other) => {
    const yaml = workflowYaml('w', 'A: { kind: System, command: "true", transitions: [] }', {
      spec: `storage: { workspace: { ttl_hours: 2, ${other} } }`,
    })
    expect(await app.ask('aegis.workflow.validate', { manifest_yaml: yaml })).toMatchObject({
      valid: false,
      errors: [expect.stringMatching(/^spec\.storage\.workspace\.ttl_hours: .*leave it out$/)],
    })
  })
})

describe('volumes of an agent', () => {
  const volume = (more: string): string =>
    `  task: { instruction: "Write." }\n  tools: [fs.write]\n  volumes: [{ name: v, storage_class: ephemeral, mount_path: /workspace/v, access_mode: read-write, ${more} }]\n`
  const write = (chars: number) => ({
    toolCalls: [{ name: 'fs_write', arguments: { path: '/workspace/v/f', content: 'x'.repeat(chars) } }],
  })

  it.each([
    [100, 'completed'],
    [20_000, 'failed'],
  ])('with %i characters in 10 kB the execution is %s', async (chars, status) => {
    await using model = await startScriptedModel(inTurn(write(chars), { text: 'done' }))
    const loop = await openLoop(app, { agents: { a: agentYaml('a', volume('size_limit: 10Ki')) }, model })
    const run = await loop.finish('a')
    expect(run.status).toBe(status)
    if (status === 'failed') {
      expect(run.error).toMatchObject({
        code: 'ERR_QUOTA_EXCEEDED',
        message: expect.stringMatching(/^spec\.volumes\[0\]\.size_limit: the volume 'v' has 2\d{4} bytes/),
      })
    }
    expect(await rowsFor(app)).toEqual([])
    await loop.engine.close()
  })

  it('end their execution when their time to live is over', async () => {
    await using model = await startScriptedModel(inTurn({ text: 'done' }))
    const clock = { ...systemClock, nowMs: () => systemClock.nowMs() + 3_700_000 }
    const yaml = agentYaml('a', volume('size_limit: 10Ki, ttl_hours: 1')).replace(
      '  task:',
      '  security: { resources: { timeout: 5h } }\n  task:',
    )
    const loop = await openLoop(app, { agents: { a: yaml }, model, deps: { clock } })
    const run = await loop.finish('a')
    expect(run).toMatchObject({
      status: 'failed',
      error: { code: 'ERR_EXECUTION_TIMEOUT', message: expect.stringContaining('spec.volumes[0].ttl_hours') },
    })
    expect(await rowsFor(app)).toEqual([])
    await loop.engine.close()
  })
})
