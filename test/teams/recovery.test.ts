import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Answer, TestApp } from '../support/app.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { type RealServer, startRealServer } from '../support/real-server.ts'
import { type TaskResult, teamsOf } from '../support/teams.ts'
import { namesFor, openWorkspaceApp } from '../support/workspaces.ts'

let app: TestApp
const teams = teamsOf(() => app)

async function reopen(): Promise<void> {
  app = await openWorkspaceApp({ dataDir: app.dataDir })
}

/** The program ends in order, and then its rows are put back to how they are in the middle of an operation. */
async function crashInto(sql: string): Promise<void> {
  await app.stop()
  app.behindItsBack((db) => db.exec(sql))
  await reopen()
}
const cardsOf = (team: string): string[] => {
  const folder = join(app.dataDir, 'vault/teams', team, 'cards')
  return existsSync(folder) ? readdirSync(folder) : []
}
const teamCount = async (): Promise<unknown> => (await teams.act<{ count: number }>('list')).count

describe('after a crash', () => {
  beforeAll(async () => {
    app = await openWorkspaceApp()
  })
  afterAll(() => app[Symbol.asyncDispose]())
  /** Each begins with a server that has no team. */
  afterEach(async () => {
    await app.stop()
    await reopen()
    const { teams: left } = await teams.act<{ teams: { name: string }[] }>('list')
    for (const { name } of left) await teams.act('destroy', { name })
    expect(await namesFor(app)).toEqual([])
  })

  it('a team that was being made is gone, with the workspaces that it had already', async () => {
    await teams.create('kept', ['a'])
    await teams.create('half', ['a', 'b', 'c'])
    await crashInto(
      `UPDATE teams SET state = 'creating', operation = 'dead' WHERE name = 'half';
       UPDATE team_members SET workspace_id = NULL WHERE team = 'half' AND name <> 'a';
       UPDATE workspaces SET state = 'creating', operation = 'dead' WHERE name = 'half-c'`,
    )
    await expect.poll(teamCount).toBe(1)
    expect(await namesFor(app)).toEqual(['kept-a'])
    expect([cardsOf('half'), cardsOf('kept')]).toEqual([[], ['a.json']])
    await teams.create('half', ['a'])
  })

  it('a team that was being destroyed is gone, with its sub-teams', async () => {
    await teams.create('top', ['a'])
    await teams.create('sub', ['a', 'b'], { parent_team: 'top' })
    await crashInto(`UPDATE teams SET state = 'destroying', operation = 'dead'`)
    await expect.poll(teamCount).toBe(0)
    expect(await namesFor(app)).toEqual([])
  })

  it('a task whose beginning was entered is run once, whether its job had been started or not', async () => {
    await teams.create('crew', ['a'])
    const command = 'echo ran >> /runs; while [ ! -e /go ]; do sleep 0.05; done; cat /runs'
    await teams.assign('crew', 'a', { task_id: 'started', command })
    await expect.poll(async () => (await teams.status('crew')).members[0]!['running_tasks']).toBe(1)
    await crashInto('UPDATE team_tasks SET job_id = NULL')
    await app.ask('exec', { workspace_id: 'crew-a', command: 'touch /go' })
    expect(await teams.results('crew', 'a', 1)).toMatchObject([{ task_id: 'started', stdout: 'ran\n' }])
    await app.ask('workspace_stop', { workspace_id: 'crew-a' })
    await teams.assign('crew', 'a', { task_id: 'begun', command: 'echo once' })
    await app.stop()
    app.behindItsBack((db) =>
      db.exec(`UPDATE team_tasks SET state = 'running'; UPDATE workspaces SET state = 'stopped'`),
    )
    await reopen()
    expect(await teams.results('crew', 'a', 1)).toMatchObject([{ task_id: 'begun', exit_code: 137 }])
  })

  it('of the machine, tasks that ran are over and others wait for their workspace', async () => {
    await teams.create('crew', ['a'])
    for (let n = 0; n < 5; n++) await teams.assign('crew', 'a', { task_id: `t${n}`, command: 'sleep 600' })
    await expect.poll(async () => (await teams.status('crew')).members[0]!['running_tasks']).toBe(4)
    await app.stop()
    await endSupervisor(app.dataDir)
    await reopen()
    const ended = await teams.results('crew', 'a', 4)
    expect(ended.map(({ exit_code }) => exit_code)).toEqual([137, 137, 137, 137])
    expect((await teams.receive('crew', 'a')).daemon_pending_tasks).toBe(1)
  })
})

describe('kill -9 of the server', () => {
  let server: RealServer | undefined
  afterEach(async () => {
    await server?.stop()
    server = undefined
  })
  const env = { CASTELLAN_WORKSPACES_STORE_GB: '0', CASTELLAN_RATE_LIMITS_ENABLED: 'false' }
  async function call<T = Answer>(tool: string, args: object): Promise<T> {
    const response = await fetch(new URL(`/v1/tools/${tool}`, server!.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(args),
    })
    const body = (await response.json()) as T & { error?: unknown }
    if (body.error !== undefined) throw new Error(JSON.stringify(body.error))
    return body
  }

  it('loses no message and no task; what runs goes on, and what waits is run', async () => {
    const first = await startRealServer({ env })
    server = first
    await call('team', { action: 'create', name: 'crew', roles: [{ name: 'a', role: 'x' }] })
    const send = (content: string, message_type = 'text') =>
      call('team', { action: 'message', name: 'crew', agent: 'owner', to: 'a', content, message_type })
    await send('kept')
    for (let n = 0; n < 6; n++) {
      const task = {
        task_id: `t${n}`,
        command: `echo ${n} >> /runs; while [ ! -e /go ]; do sleep 0.05; done; echo ${n}`,
      }
      await send(JSON.stringify(task), 'task_assignment')
    }
    // Tasks that run at the same time begin in any order.
    const runs = async () =>
      (await call<{ stdout: string }>('exec', { workspace_id: 'crew-a', command: 'sort /runs' })).stdout
    await expect.poll(runs).toBe('0\n1\n2\n3\n')
    first.kill('SIGKILL')
    await first.ended
    server = await startRealServer({ env, dataDir: first.dataDir })
    expect(await runs()).toBe('0\n1\n2\n3\n')
    await call('exec', { workspace_id: 'crew-a', command: 'touch /go' })
    const results: TaskResult[] = []
    const messages: unknown[] = []
    await expect
      .poll(
        async () => {
          const received = await call<{ messages: Answer[]; daemon_results: TaskResult[] }>('team', {
            action: 'receive',
            name: 'crew',
            agent: 'a',
          })
          messages.push(...received.messages.map(({ content }) => content))
          results.push(...received.daemon_results)
          return results.length
        },
        { timeout: 180_000 },
      )
      .toBe(6)
    expect(messages).toEqual(['kept'])
    expect(results.map(({ task_id, stdout }) => [task_id, stdout]).sort()).toEqual(
      Array.from({ length: 6 }, (_, n) => [`t${n}`, `${n}\n`]),
    )
    expect(await runs()).toBe('0\n1\n2\n3\n4\n5\n')
    expect(readFileSync(join(first.dataDir, 'vault/teams/crew/cards/a.json'), 'utf8')).toContain('"team": "crew"')
    await server.stop()
    server = first
  })
})
