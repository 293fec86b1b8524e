import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { type Ended, ended, letStepsGo, register, start, untilLetGo, workflowYaml } from '../support/workflows.ts'
import { openWorkspaceApp } from '../support/workspaces.ts'

/** Steps that each have a copy of the volumes or of the whole workspace: whatever they write, nothing is lost. */
let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
})
afterAll(() => app[Symbol.asyncDispose]())

/** It goes on when all of them have their copies. */
const bare = (name: string, command: string, more = ''): string => {
  const line = `${untilLetGo}; ${command}`
  return `{ name: ${name}, image: host, command: ["sh", "-c", ${JSON.stringify(line)}]${more} }`
}
const step = (name: string, command: string): string =>
  bare(
    name,
    command,
    ', volumes: [{ name: workspace, mount_path: /workspace }, { name: data, mount_path: /volumes/data }]',
  )
const apart = (name: string, command: string): string =>
  bare(
    name,
    command,
    ', volumes: [{ name: workspace, mount_path: /workspace }, { name: data, mount_path: /volumes/data, read_only: true }]',
  )

async function inParallel(name: string, ...steps: readonly string[]): Promise<Ended> {
  const states = `A: { kind: System, command: "mkdir d; echo old > kept; echo old > gone; echo old > both", transitions: [{ condition: always, target: B }] }
B: { kind: ParallelContainerRun, completion: best_effort, steps: [${steps.join(', ')}], transitions: [{ condition: always, target: C }] }
C: { kind: System, command: "ls /volumes/data | xargs echo data:; find . ! -type d | sort | xargs tail -n +1", transitions: [] }`
  await register(app, workflowYaml(name, states, { spec: 'storage: { shared_volumes: [{ name: data }] }' }))
  const id = await start(app, name)
  await letStepsGo(app, id, steps.length)
  return await ended(app, id)
}

describe.each([
  ['with volumes', step],
  ['without volumes', bare],
])('parallel steps %s', (what, step) => {
  const named = (name: string): string => `${name}-${what.replace(' ', '-')}`

  it('keep what each of them wrote, changed and removed', async () => {
    const run = await inParallel(
      named('apart'),
      step('one', 'echo 1 > one; echo new > kept'),
      step('two', 'echo 2 > d/two; rm gone; ln -s one link'),
      step('three', 'true'),
    )
    expect(run).toMatchObject({ status: 'completed' })
    const { stdout } = run.blackboard['C'] as { stdout: string }
    const files = Object.fromEntries(
      stdout.split(/^==> /m).flatMap((part) => {
        const [name, content] = part.split(' <==\n')
        return content === undefined ? [] : [[name, content.trim()]]
      }),
    )
    expect(files).toEqual({ './both': 'old', './d/two': '2', './kept': 'new', './link': '1', './one': '1' })
  })

  it('do not decide between two versions of one file: one step fails, and its version is beside', async () => {
    const both = (number: number) => `echo ${number} > both; echo ${number} > /volumes/data/${number}`
    const run = await inParallel(named('same'), step('one', both(1)), step('two', both(2)))
    const { results } = run.blackboard['B'] as unknown as { results: { name: string; status: string; error: string }[] }
    expect(results.map(({ status }) => status).sort()).toEqual(['failed', 'success'])
    const [lost, won] = ['failed', 'success'].map((status) => results.find((one) => one.status === status)!)
    expect(JSON.stringify(lost)).toContain('wrote the same files of the volume')
    const { stdout } = run.blackboard['C'] as { stdout: string }
    const number = (name: string) => (name === 'one' ? '1' : '2')
    expect(stdout).toContain(`==> ./both <==\n${number(won!.name)}\n`)
    expect(stdout).toMatch(new RegExp(`==> \\./\\.unmerged-${lost!.name}-[0-9a-f]+/both <==\n${number(lost!.name)}\n`))
    expect(stdout).toContain('data: 1 2\n')
  })

  it('agree where both wrote the same', async () => {
    const run = await inParallel(named('agreed'), step('one', 'echo 1 > both'), step('two', 'echo 1 > both'))
    expect(run.blackboard['B']).toMatchObject({ succeeded: 2, failed: 0 })
    expect((run.blackboard['C'] as { stdout: string }).stdout).not.toContain('unmerged')
  })
})

describe('parallel steps without volumes', () => {
  it('have everything that the workspace has, and nothing of each other', async () => {
    const look = 'cat /opt/tool; ls /workspace'
    const states = `A: { kind: System, command: "echo made > /opt/tool; head -c 80000000 /dev/urandom > large", transitions: [{ condition: always, target: B }] }
B: { kind: ParallelContainerRun, completion: all_succeed, steps: [${bare('one', `touch one; ${look}`)}, ${bare('two', `touch two; ${look}`)}], transitions: [{ condition: always, target: C }] }
C: { kind: System, command: "ls", transitions: [] }`
    await register(app, workflowYaml('whole', states))
    const id = await start(app, 'whole')
    await letStepsGo(app, id, 2)
    const { blackboard } = await ended(app, id)
    expect(blackboard['B']).toMatchObject({
      output: { one: { stdout: 'made\nlarge\none\n' }, two: { stdout: 'made\nlarge\ntwo\n' } },
    })
    expect(blackboard['C']).toMatchObject({ stdout: 'large\none\ntwo\n' })
    expect(await copiesOf(id)).toEqual([])
  })

  it('are merged with one that has a workspace of its own', async () => {
    const run = await inParallel('mixed', bare('one', 'echo 1 > one'), apart('two', 'echo 2 > two'))
    expect(run.blackboard['B']).toMatchObject({ succeeded: 2, failed: 0 })
    expect((run.blackboard['C'] as { stdout: string }).stdout).toMatch(
      /==> \.\/one <==\n1\n[\s\S]*==> \.\/two <==\n2\n/,
    )
  })

  it('leave no copy when the run is cancelled', async () => {
    const forever = bare('one', 'sleep 600')
    const states = `A: { kind: ParallelContainerRun, completion: all_succeed, steps: [${forever}, ${bare('two', 'sleep 600')}, ${apart('three', 'sleep 600')}], transitions: [] }`
    await register(app, workflowYaml('stopped', states, { spec: 'storage: { shared_volumes: [{ name: data }] }' }))
    const id = await start(app, 'stopped')
    await letStepsGo(app, id, 3)
    await app.ask('aegis.workflow.cancel', { execution_id: id })
    expect(await ended(app, id)).toMatchObject({ status: 'cancelled' })
    await expect.poll(() => copiesOf(id)).toEqual([])
  })
})

async function copiesOf(id: string): Promise<readonly string[]> {
  const { workspaces } = await app.ask<{ workspaces: { name: string }[] }>('workspace_list')
  return workspaces.map(({ name }) => name).filter((name) => name.startsWith(`wf-${id}-`))
}
