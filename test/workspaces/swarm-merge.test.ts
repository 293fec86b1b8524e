import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Answer, TestApp } from '../support/app.ts'
import { destroyAll, namesFor, openWorkspaceApp, sh } from '../support/workspaces.ts'

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
})
afterEach(() => destroyAll(app))
afterAll(() => app[Symbol.asyncDispose]())

type Merge = Answer & { results: Answer[]; merged_tasks: string[] }
type Swarm = Answer & { tasks: Answer[]; workers: Answer[]; merge: Merge | null }
const golden = { golden_workspace: 'gold', snapshot_name: 'golden' }
const swarm = (args: object) => app.ask<Swarm>('swarm_run', { ...golden, ...args })
const refusal = (args: object) => app.refusal('swarm_run', { ...golden, ...args })

const repository = [
  'git init -q -b main && git config user.name a && git config user.email a@example.org',
  'for n in 1 2 3; do echo $n > file; git add .; git commit -qm "base $n"; done',
]
const prepare = (setup: readonly string[] = repository) =>
  app.ask('workspace_prepare', { name: 'gold', setup_commands: setup })
const commit = (name: string, file = name) => ({
  name,
  command: `echo ${name} > ${file} && git add . && git commit -qm ${name}`,
})
const logOf = async (workspace: string): Promise<string[]> =>
  (await sh(app, workspace, 'git -C /workspace log --no-merges --format=%s')).stdout.trim().split('\n')

describe('what the workers of a swarm committed', () => {
  it.each(['sequential', 'branch-per-source', 'cherry-pick'])(
    'is merged into the golden workspace by default, without what failed: %s',
    async (merge_strategy) => {
      await prepare()
      const failing = { name: 'failed', command: `${commit('failed').command}; exit 1` }
      const { merge } = await swarm({ merge_strategy, tasks: [commit('one'), failing, commit('two')] })
      expect(merge).toMatchObject({
        strategy: merge_strategy,
        target_workspace_name: 'gold',
        success: true,
        total_commits_applied: 2,
        merged_tasks: ['one', 'two'],
        results: [
          { task: 'one', commits_applied: 1 },
          { task: 'two', commits_applied: 1 },
        ],
        error: null,
      })
      expect((await logOf('gold')).sort()).toEqual(['base 1', 'base 2', 'base 3', 'one', 'two'])
      // What failed has commits that are nowhere else.
      const [worker] = (await namesFor(app)).filter((name) => name !== 'gold')
      expect(await logOf(worker!)).toEqual(['failed', 'base 3', 'base 2', 'base 1'])
      await app.ask('workspace_destroy', { workspace_id: worker })
      expect(await namesFor(app)).toEqual(['gold'])
    },
  )

  it('is merged into another workspace when one is named', async () => {
    await prepare()
    await app.ask('workspace_fork', { workspace_id: 'gold', snapshot_name: 'golden', new_name: 'target' })
    await app.ask('workspace_stop', { workspace_id: 'gold' })
    const { merge } = await swarm({ merge_strategy: 'sequential', merge_target: 'target', tasks: [commit('one')] })
    expect(merge).toMatchObject({ target_workspace_name: 'target', merged_tasks: ['one'] })
    expect(await logOf('target')).toEqual(['one', 'base 3', 'base 2', 'base 1'])
  })

  it('is not merged without a strategy, and that is said when a target is named', async () => {
    await prepare()
    const answer = await app.call('swarm_run', { ...golden, merge_target: 'gold', tasks: [commit('one')] })
    expect(JSON.parse(answer.json)).toMatchObject({ merge: null, summary: { succeeded: 1 } })
    expect(JSON.stringify(answer.content)).toContain('nothing is merged without merge_strategy')
    expect(await logOf('gold')).toHaveLength(3)
  })

  it('is reported when it does not fit, and the others are merged', async () => {
    await prepare()
    const tasks = [commit('one', 'file'), commit('two', 'file'), commit('three')]
    const { merge, workers } = await swarm({ merge_strategy: 'sequential', cleanup: false, tasks })
    expect(merge).toMatchObject({
      success: false,
      merged_tasks: ['one', 'three'],
      results: [{ success: true }, { task: 'two', success: false, conflict_files: ['file'] }, { success: true }],
    })
    expect(workers).toHaveLength(3)
  })

  it('leaves the worker whose commits did not fit, and no other', async () => {
    await prepare()
    const tasks = [commit('one', 'file'), commit('two', 'file'), commit('three'), { name: 'four', command: 'false' }]
    const answer = await app.call('swarm_run', { ...golden, merge_strategy: 'sequential', tasks })
    const { workers, summary } = JSON.parse(answer.json) as Swarm & { summary: Answer }
    const name = String(workers[0]!['name'])
    expect(workers).toMatchObject([{ name: expect.stringMatching(/-two$/), unmerged: true, error: null }])
    expect(summary).toMatchObject({ workers_destroyed: 3 })
    expect(JSON.stringify(answer.content)).toContain(`could not be merged: ${name}.`)
    expect((await namesFor(app)).toSorted()).toEqual(['gold', name].sort())
    expect((await logOf(name))[0]).toBe('two')
    await app.ask('workspace_destroy', { workspace_id: name })
  })

  it.each([
    [
      'did not commit all',
      { command: 'echo a > saved && git add . && git commit -qm a && echo b > unsaved' },
      'unsaved',
    ],
    ['changed a file', { command: 'echo changed > file' }, 'file'],
    [
      'ran out of time after a commit',
      { command: 'echo a > late && git add . && git commit -qm late; sleep 60' },
      'late',
    ],
    ['failed with files in hand', { command: 'echo a > half; exit 1' }, 'half'],
    [
      'committed to another branch',
      { command: 'git checkout -qb side && echo a > aside && git add . && git commit -qm side && git checkout -q -' },
      'aside',
    ],
    ['has a stash', { command: 'echo changed > file && git stash -q' }, 'file'],
  ])('leaves a worker that %s, with what it has', async (_, { command }, file) => {
    await prepare()
    const tasks = [commit('one'), { name: 'kept', command }]
    const answer = await app.call('swarm_run', { ...golden, merge_strategy: 'sequential', timeout_secs: 3, tasks })
    const { workers, merge } = JSON.parse(answer.json) as Swarm
    expect(workers).toMatchObject([{ name: expect.stringMatching(/-kept$/), unmerged: true, error: null }])
    const hasCommitted = command.includes('> saved')
    expect(merge).toMatchObject({ merged_tasks: hasCommitted ? ['one', 'kept'] : ['one'] })
    const name = String(workers[0]!['name'])
    expect(JSON.stringify(answer.content)).toContain(name)
    const found = await sh(app, name, `cd /workspace; cat ${file} 2>/dev/null; git log --all -p -- ${file}`)
    expect(found.stdout).not.toBe('')
    await app.ask('workspace_destroy', { workspace_id: name })
  })

  it('is nothing when no task succeeded', async () => {
    await prepare()
    const { merge } = await swarm({ merge_strategy: 'sequential', tasks: [{ name: 'a', command: 'false' }] })
    expect(merge).toMatchObject({ success: false, results: [], error: { code: 'ERR_WORKSPACE_STATE' } })
  })

  it('is reported as not merged when the target has changed meanwhile, and the results of the tasks stay', async () => {
    await prepare()
    const waiting = { name: 'a', command: `until [ -e /go ]; do sleep 0.05; done; ${commit('a').command}` }
    const running = swarm({ merge_strategy: 'sequential', tasks: [waiting] })
    await expect.poll(async () => (await namesFor(app)).length).toBe(2)
    await sh(app, 'gold', 'echo dirty > /workspace/file')
    const worker = (await namesFor(app)).find((name) => name !== 'gold')
    await expect
      .poll(async () => (await app.call('file_write', { workspace_id: worker, path: '/go', content: '' })).isError)
      .toBe(false)
    const { merge, tasks } = await running
    expect(tasks).toMatchObject([{ success: true }])
    expect(merge).toMatchObject({ success: false, error: { code: 'ERR_WORKTREE_DIRTY' } })
    expect((await namesFor(app)).toSorted()).toEqual(['gold', worker].sort())
    await app.ask('workspace_destroy', { workspace_id: worker })
  })
})

describe('a target that cannot take a merge', () => {
  it('is refused before any fork', async () => {
    const request = { merge_strategy: 'sequential', tasks: [commit('one')] }
    await prepare([])
    expect(await refusal(request)).toMatchObject({
      code: 'ERR_NOT_A_REPOSITORY',
      message: expect.stringContaining("merge_target: /workspace of 'gold' has no git repository"),
    })
    await sh(app, 'gold', `cd /workspace; git init -q`)
    expect((await refusal(request)).code).toBe('ERR_GIT_FAILED')
    await sh(app, 'gold', `cd /workspace; ${repository.join('\n')}; echo more >> file`)
    expect((await refusal(request)).code).toBe('ERR_WORKTREE_DIRTY')
    await app.ask('workspace_stop', { workspace_id: 'gold' })
    expect(await refusal(request)).toMatchObject({ code: 'ERR_WORKSPACE_STOPPED' })
    expect((await refusal({ ...request, merge_target: 'none' })).code).toBe('ERR_WORKSPACE_NOT_FOUND')
    expect((await app.log()).filter(({ tool }) => tool === 'swarm_run').map(({ outcome }) => outcome)).not.toContain(
      'failed',
    )
    expect(await namesFor(app)).toEqual(['gold'])
  })
})
