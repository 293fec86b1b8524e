import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { ended, runStates, start } from '../support/workflows.ts'
import { destroyAll, openWorkspaceApp, rowsFor } from '../support/workspaces.ts'

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
})
afterAll(async () => {
  await destroyAll(app)
  await app[Symbol.asyncDispose]()
})

describe('shared volumes that outlive a run', () => {
  const box = (name: string, script: string, more: string) =>
    `${name}: { kind: ContainerRun, name: ${name}, image: host, command: ["sh", "-c", "${script}"], volumes: [{ name: notes, mount_path: /notes }], ${more} }`
  const kept = (more = '') => `storage: { shared_volumes: [{ name: notes, storage_class: persistent${more} }] }`
  const always = (target: string) => `transitions: [{ condition: always, target: ${target} }]`

  it('hold what the steps of earlier runs left, for each workflow its own', async () => {
    const states = [
      box('A', 'echo x >> /notes/log; wc -l < /notes/log', always('B')),
      box('B', 'ls -A /notes; cat /notes/log', 'transitions: []'),
    ].join('\n')
    const first = await runStates(app, 'keeping', states, { spec: kept() })
    expect(first).toMatchObject({
      status: 'completed',
      blackboard: { A: { stdout: '1\n' }, B: { stdout: 'log\nx\n' } },
    })
    const again = await ended(app, await start(app, 'keeping'))
    expect(again).toMatchObject({ blackboard: { A: { stdout: '2\n' }, B: { stdout: 'log\nx\nx\n' } } })
    const other = await runStates(app, 'other-keeping', states, { spec: kept() })
    expect(other).toMatchObject({ blackboard: { A: { stdout: '1\n' } } })
    const names = (await rowsFor(app)).map(({ name }) => name)
    expect(names.filter((name) => /^wf-[0-9a-f-]{36}-volume-notes$/.test(name))).toHaveLength(2)
    expect(names.filter((name) => name.includes(again.execution_id))).toEqual([])
  })

  it('are changed by one of two steps at a time, and nothing of it is lost', async () => {
    const step = (name: string) =>
      `{ name: ${name}, image: host, command: ["sh", "-c", "echo ${name} > /notes/${name}"], volumes: [{ name: notes, mount_path: /notes }] }`
    const states = `A: { kind: ParallelContainerRun, completion: any_succeed, steps: [${step('one')}, ${step('two')}], ${always('B')} }
${box('B', 'cat /notes/*', 'transitions: []')}`
    const run = await runStates(app, 'racing', states, { spec: kept() })
    const results = run.blackboard['A']!['results'] as { name: string; status: string; error?: string }[]
    const [done, refused] = [true, false].map((isDone) =>
      results.filter(({ status }) => (status === 'success') === isDone),
    )
    expect(run.blackboard['B']).toMatchObject({ stdout: done!.map(({ name }) => `${name}\n`).join('') })
    for (const { error } of refused!)
      expect(error).toContain("The volume 'notes' was changed by another step meanwhile")
  })

  it('hold no more than they may', async () => {
    const run = await runStates(
      app,
      'too-many-notes',
      box('A', 'head -c 100000 /dev/zero > /notes/big', 'transitions: []'),
      {
        spec: kept(', size_limit_bytes: 50000'),
      },
    )
    expect(run).toMatchObject({ status: 'failed', blackboard: { A: { error_code: 'ERR_QUOTA_EXCEEDED' } } })
    expect(run.blackboard['A']!['error']).toMatch(/would hold 10\d{4} bytes; its size_limit_bytes is 50000/)
  })
})
