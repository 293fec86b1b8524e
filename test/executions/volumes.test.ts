import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { RunEvent } from '../../src/engine/ports.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { agentYaml, type Loop, openLoop } from '../support/executions.ts'
import { inTurn, type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts'

/** Volumes that outlive an execution and those that do not, and the files that an agent is told of, in real workspaces. */
let app: TestApp
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
})
afterAll(() => app[Symbol.asyncDispose]())

async function open(agents: Readonly<Record<string, string>>): Promise<{ loop: Loop; model: ScriptedModel }> {
  const model = await startScriptedModel(inTurn({ text: 'done' }))
  const loop = await openLoop(app, { agents, model })
  onTestFinished(async () => {
    await loop.engine.close()
    await model.stop()
  })
  return { loop, model }
}

const volume = (name: string, kind: string, path: string): string =>
  `    - { name: ${name}, storage_class: ${kind}, mount_path: ${path}, access_mode: read-write, size_limit: 1Gi }\n`
const keeper = (
  name: string,
  script: string,
  more = '',
  volumes = volume('kept', 'persistent', '/workspace'),
): string =>
  agentYaml(
    name,
    `  task: { instruction: "Work." }\n  advanced: { startup_script: ${JSON.stringify(script)} }\n  volumes:\n${volumes}${more}`,
  )
const network = (policy: string): string => `  security: { network: ${policy} }\n`

type Info = Readonly<{ network: Readonly<{ allow_internet: boolean; allowed_domains: readonly string[] }> }>

async function workspaceOf(loop: Loop, runId: string): Promise<string> {
  const spawned = (await loop.engine.journal(runId)).find(({ type }: RunEvent) => type === 'instance_spawned')
  return (spawned!.payload as { workspace_id: string }).workspace_id
}

/** Different versions of one agent: what is kept is found by the id of the agent. */
const versions = (...manifests: readonly string[]) =>
  Object.fromEntries(manifests.map((yaml, index) => [`v${index + 1}`, yaml]))

describe('a volume that is kept', () => {
  const finish = async (loop: Loop, version: string) => {
    const run = await loop.finish(version, { agent: { id: 'id-of-keeper', name: 'keeper', version: '1.0.0' } })
    return run
  }

  test('reaches what the version that runs says, not what the first one said', async () => {
    const { loop } = await open(
      versions(
        keeper('a', 'echo kept > f', network('{ mode: allow, allowlist: [example.org] }')),
        keeper('a', 'test -f f', network('{ mode: none }')),
        keeper('a', 'test -f f', network('{ mode: allow, allowlist: [example.com] }')),
        keeper('a', 'test -f f'),
      ),
    )
    const seen: Info['network'][] = []
    for (const version of ['v1', 'v2', 'v3', 'v4']) {
      const run = await finish(loop, version)
      expect(run.error).toBeNull()
      const id = await workspaceOf(loop, run.id)
      seen.push((await app.ask<Info>('workspace_info', { workspace_id: id })).network)
    }
    expect(seen.map(({ allow_internet, allowed_domains }) => [allow_internet, ...allowed_domains])).toEqual([
      [false, 'example.org'],
      [false],
      [false, 'example.com'],
      [false],
    ])
  })

  test('is held by one execution at a time, and taken over from one that is gone', async () => {
    const agents = { holder: keeper('holder', 'true', '  execution: { mode: one-shot }\n') }
    const gate = Promise.withResolvers<void>()
    let asked = 0
    const model = await startScriptedModel(async () => {
      if (++asked === 1) await gate.promise
      return { text: 'done' }
    })
    const loop = await openLoop(app, { agents, model })
    onTestFinished(async () => {
      await loop.engine.close()
      await model.stop()
    })
    const first = await loop.execute('holder')
    await expect.poll(() => asked).toBe(1)
    const second = await loop.finish('holder')
    expect(second.error).toMatchObject({
      code: 'ERR_EXECUTION_STATE',
      message: expect.stringContaining(`the volume 'kept' is in use by the execution ${first.id}`),
    })
    gate.resolve()
    expect(await loop.engine.end(first.id)).toMatchObject({ status: 'completed' })
    const workspace_id = await workspaceOf(loop, first.id)
    const stale = `ln -s 00000000-0000-4000-8000-000000000000 /var/lib/castellan/held-by`
    expect(await app.ask('exec', { workspace_id, command: stale })).toMatchObject({ exit_code: 0 })
    expect(await loop.finish('holder')).toMatchObject({ status: 'completed' })
    const left = { workspace_id, command: 'ls -A /var/lib/castellan' }
    expect(await app.ask('exec', left)).toMatchObject({ stdout: '' })
  })

  test('is not used with another size than it has', async () => {
    const sized = (memory: string) => keeper('b', 'true', `  security: { resources: { memory: ${memory} } }\n`)
    const { loop } = await open(versions(sized('256Mi'), sized('128Mi')))
    const finishB = (version: string) =>
      loop.finish(version, { agent: { id: 'id-of-sized', name: 'sized', version: '1.0.0' } })
    expect((await finishB('v1')).error).toBeNull()
    const refused = await finishB('v2')
    expect(refused.error).toMatchObject({ code: 'ERR_INVALID_INPUT' })
    expect(refused.error!.message).toMatch(/^spec\.security\.resources: .*'kept'.*256 MB/)
    expect((await finishB('v1')).error).toBeNull()
  })

  test('has nothing of the ephemeral volumes beside it', async () => {
    const both = volume('tmp', 'ephemeral', '/workspace/tmp') + volume('data', 'persistent', '/workspace/data')
    const first = keeper(
      'c',
      'test -z "$(ls tmp)" && echo 1 > tmp/f && echo 1 > tmp/.hidden && echo 1 > data/f',
      '',
      both,
    )
    const second = keeper('c', 'test -z "$(ls -A tmp)" && test -f data/f', '', both)
    const { loop } = await open(versions(first, second))
    const finishC = (version: string) =>
      loop.finish(version, { agent: { id: 'id-of-both', name: 'both', version: '1.0.0' } })
    expect((await finishC('v1')).error).toBeNull()
    expect((await finishC('v2')).error).toBeNull()
  })
})

describe('the context of an agent', () => {
  test('has the files of a folder', async () => {
    const script = 'mkdir -p notes/deeper && echo first > notes/a.md && echo second > notes/b.md'
    const reader = agentYaml(
      'reader',
      `  task: { instruction: "Read." }\n  advanced: { startup_script: "${script}" }\n  context: [{ type: directory, path: /workspace/notes }]\n`,
    )
    const { loop, model } = await open({ reader })
    expect((await loop.finish('reader')).error).toBeNull()
    expect(model.requests[0]!.text).toContain('## /workspace/notes/a.md\nfirst\n')
    expect(model.requests[0]!.text).toContain('## /workspace/notes/b.md\nsecond\n')
  })
})
