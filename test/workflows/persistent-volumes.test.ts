import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { ended, letStepsGo, register, runStates, start, untilLetGo, workflowYaml } from '../support/workflows.ts'
import { openWorkspaceApp, rowsFor } from '../support/workspaces.ts'

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
})
afterAll(() => app[Symbol.asyncDispose]())

describe('shared volumes that outlive a run', () => {
  const box = (name: string, script: string, more: string) =>
    `${name}: { kind: ContainerRun, name: ${name}, image: host, command: ["sh", "-c", "${script}"], volumes: [{ name: notes, mount_path: /notes }], ${more} }`
  const retained = (more = '') => `storage: { shared_volumes: [{ name: notes, storage_class: persistent${more} }] }`
  const always = (target: string) => `transitions: [{ condition: always, target: ${target} }]`

  it('hold what the steps of earlier runs left, for each workflow its own', async () => {
    const states = [
      box('A', 'echo x >> /notes/log; wc -l < /notes/log', always('B')),
      box('B', 'ls -A /notes; cat /notes/log', 'transitions: []'),
    ].join('\n')
    const first = await runStates(app, 'keeping', states, { spec: retained() })
    expect(first).toMatchObject({
      status: 'completed',
      blackboard: { A: { stdout: '1\n' }, B: { stdout: 'log\nx\n' } },
    })
    const again = await ended(app, await start(app, 'keeping'))
    expect(again).toMatchObject({ blackboard: { A: { stdout: '2\n' }, B: { stdout: 'log\nx\nx\n' } } })
    const other = await runStates(app, 'other-keeping', states, { spec: retained() })
    expect(other).toMatchObject({ blackboard: { A: { stdout: '1\n' } } })
    const names = (await rowsFor(app)).map(({ name }) => name)
    expect(names.filter((name) => /^wf-[0-9a-f-]{36}-volume-notes$/.test(name))).toHaveLength(2)
    expect(names.filter((name) => name.includes(again.execution_id))).toEqual([])
  })

  const step = (name: string, script: string) =>
    `{ name: ${name}, image: host, command: ["sh", "-c", "${untilLetGo}; cd /notes; ${script}"], volumes: [{ name: notes, mount_path: /notes }] }`
  const racing = async (name: string, ...steps: readonly string[]) => {
    const states = `${box('S', 'cd /notes; echo old > kept; echo old > gone; echo old > both; mkdir d', always('A'))}
A: { kind: ParallelContainerRun, completion: best_effort, steps: [${steps.join(', ')}], ${always('B')} }
${box('B', 'cd /notes; find . ! -type d | LC_ALL=C sort | while read -r f; do echo $f $(cat $f); done', 'transitions: []')}`
    await register(app, workflowYaml(name, states, { spec: retained() }))
    const id = await start(app, name)
    await letStepsGo(app, id, steps.length)
    return await ended(app, id)
  }

  it('have what each of several steps changed at the same time', async () => {
    const run = await racing(
      'racing',
      step('one', 'echo 1 > one; echo new > kept; echo same > both'),
      step('two', 'echo 2 > d/two; rm gone; ln -s one link; echo same > both'),
      step('three', 'echo 3 > three'),
    )
    expect(run.blackboard['A']).toMatchObject({ succeeded: 3, failed: 0 })
    expect(run.blackboard['B']).toMatchObject({
      stdout: './both same\n./d/two 2\n./kept new\n./link 1\n./one 1\n./three 3\n',
    })
  })

  it('have both versions of a file that two steps changed, and one of the steps fails', async () => {
    const two = step('two', 'echo 2 > both; echo 2 > two')
    const run = await racing('conflicting', step('one', 'echo 1 > both'), two)
    const results = run.blackboard['A']!['results'] as { name: string; status: string; error?: string }[]
    const lost = results.find(({ status }) => status === 'failed')!
    expect(lost.error).toContain("wrote the same files of the volume 'notes'")
    const { stdout } = run.blackboard['B'] as { stdout: string }
    expect(stdout).toContain(`./both ${lost.name === 'one' ? 2 : 1}\n`)
    expect(stdout).toMatch(
      new RegExp(`^\\./\\.unmerged-${lost.name}-[0-9a-f]+/both ${lost.name === 'one' ? 1 : 2}$`, 'm'),
    )
    expect(stdout.includes('./two 2')).toBe(lost.name === 'one')
    const again = await start(app, 'conflicting')
    await letStepsGo(app, again, 2)
    const later = (await ended(app, again)).blackboard['B'] as { stdout: string }
    expect(later.stdout.match(/\.unmerged-\w+-[0-9a-f]+\/both/g)).toHaveLength(2)
  })

  it('hold no more than they may', async () => {
    const run = await runStates(
      app,
      'too-many-notes',
      box('A', 'head -c 100000 /dev/zero > /notes/big', 'transitions: []'),
      {
        spec: retained(', size_limit_bytes: 50000'),
      },
    )
    expect(run).toMatchObject({ status: 'failed', blackboard: { A: { error_code: 'ERR_QUOTA_EXCEEDED' } } })
    expect(run.blackboard['A']!['error']).toMatch(/would have 10\d{4} bytes, more than its size_limit_bytes of 50000/)
  })
})
