import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { type TenantId, tenantId } from '../../src/contract/principal.ts'
import type { WriteTx } from '../../src/contract/tx.ts'
import type {
  TaskAssignment,
  TaskKey,
  TaskResult,
  Team,
  TeamMember,
  TeamMessage,
} from '../../src/domains/teams/ports.ts'
import { sqlTeamStore as store } from '../../src/stores/sql/team-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const NOW = 1_767_225_600_000

const teamOf = (name: string, more: Partial<Team> = {}): Team => ({
  tenant: ACME,
  name,
  owner: 'key:k',
  state: 'ready',
  maxVms: 10,
  parent: null,
  depth: 0,
  node: 'here',
  operation: null,
  lastSeq: 0,
  createdAtMs: NOW,
  createdBy: 'ann',
  ...more,
})
const memberOf = (name: string, more: Partial<TeamMember> = {}): TeamMember => ({
  name,
  role: 'coder',
  skills: ['ü', '"'],
  description: 'Does.',
  workspaceId: `w-${name}`,
  ...more,
})
const messageOf = (seq: number, more: Partial<TeamMessage> = {}): TeamMessage => ({
  seq,
  id: `msg-${seq}`,
  sender: 'ann',
  addressedTo: '*',
  content: `text ${seq} ü \u0001`,
  type: 'text',
  atMs: NOW + seq,
  ...more,
})
const assignment: TaskAssignment = {
  task_id: 't',
  command: 'echo "ü"',
  workdir: null,
  env: { A: 'b' },
  timeout_secs: 300,
}
const resultOf = (key: TaskKey): TaskResult => ({
  task_id: 't',
  success: false,
  exit_code: -1,
  stdout: 'a\u0000b \u001b[0m',
  stderr: 'ü',
  elapsed_secs: 3,
  source_message_id: key.messageId,
})
const keyOf = (messageId: string, more: Partial<TaskKey> = {}): TaskKey => ({
  tenant: ACME,
  team: 'crew',
  agent: 'ann',
  messageId,
  ...more,
})

describe.each(dialects)('teams in %s', (dialect) => {
  let database: Database
  const write = <T>(work: (tx: WriteTx) => Promise<T>, tenant: TenantId = ACME) => database.write(tenant, work)
  const insert = (team: Team, ...members: TeamMember[]) =>
    write((tx) => store.insertTeam(tx, team.tenant, team, members), team.tenant)
  const addTask = (key: TaskKey, seq: number) =>
    write((tx) => store.addTask(tx, key, { seq, assignment, atMs: NOW }), key.tenant)

  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())

  it('keeps every field, and members in their order', async () => {
    const full = teamOf('crew', { parent: 'top', depth: 2, operation: 'boot', state: 'creating', lastSeq: 7 })
    const members = [memberOf('zoe'), memberOf('ann', { workspaceId: null, skills: [] })]
    await insert(full, ...members)
    await insert(teamOf('late', { createdAtMs: NOW + 1 }))
    expect(await store.findTeam(database.read, ACME, 'crew')).toEqual(full)
    expect(await store.listMembers(database.read, ACME, 'crew')).toEqual(members)
    expect((await store.listTeams(database.read, ACME)).map(({ name }) => name)).toEqual(['crew', 'late'])
    await write((tx) => store.saveTeam(tx, ACME, { ...full, state: 'ready', operation: null, lastSeq: 8 }))
    expect(await store.findTeam(database.read, ACME, 'crew')).toEqual({
      ...full,
      state: 'ready',
      operation: null,
      lastSeq: 8,
    })
    const set = (member: string) =>
      write((tx) => store.setWorkspace(tx, ACME, { team: 'crew', member, workspaceId: 'new' }))
    expect([await set('ann'), await set('none')]).toEqual([true, false])
    expect((await store.listMembers(database.read, ACME, 'crew')).map(({ workspaceId }) => workspaceId)).toEqual([
      'w-zoe',
      'new',
    ])
  })

  it('counts members of each team, and those on a node over all tenants', async () => {
    await insert(teamOf('one'), memberOf('a'), memberOf('b'))
    await insert(teamOf('two', { node: 'there' }), memberOf('a'))
    await insert(teamOf('one', { tenant: OTHER }), memberOf('a'))
    expect(await store.memberCounts(database.read, ACME)).toEqual(
      new Map([
        ['one', 2],
        ['two', 1],
      ]),
    )
    expect(await store.countMembersOnNode(database.read, 'here')).toBe(3)
    expect(await store.countMembersOnNode(database.read, 'nowhere')).toBe(0)
  })

  it('finds what is unsettled on a node, the deepest first', async () => {
    await insert(teamOf('top', { state: 'destroying' }))
    await insert(teamOf('sub', { state: 'destroying', depth: 1, tenant: OTHER }))
    await insert(teamOf('good'))
    await insert(teamOf('far', { state: 'creating', node: 'there' }))
    expect((await store.unsettledOnNode(database.read, 'here')).map(({ name }) => name)).toEqual(['sub', 'top'])
  })

  it('keeps messages for each recipient, gives them in order and takes them away', async () => {
    const add = (recipient: string, message: TeamMessage, team = 'crew') =>
      write((tx) => store.addMessage(tx, ACME, { team, recipient }, message))
    const messages = [1, 2, 3].map((seq) => messageOf(seq))
    for (const message of messages.toReversed()) await add('bob', message)
    await add('cid', messages[0]!)
    await add('bob', messages[0]!, 'other')
    const list = (afterSeq: number, limit: number) =>
      store.listMessages(database.read, ACME, { team: 'crew', recipient: 'bob', afterSeq, limit })
    expect(await list(0, 10)).toEqual(messages)
    expect(await list(1, 1)).toEqual([messages[1]])
    await write((tx) => store.deleteMessages(tx, ACME, { team: 'crew', recipient: 'bob', untilSeq: 2 }))
    expect(await list(0, 10)).toEqual([messages[2]])
    const count = (team: string, recipient: string) => store.countMessages(database.read, ACME, team, recipient)
    expect([await count('crew', 'bob'), await count('crew', 'cid'), await count('other', 'bob')]).toEqual([1, 1, 1])
    expect(await store.countMessages(database.read, OTHER, 'crew', 'bob')).toBe(0)
  })

  it('lets a task go from queued to running to done, each once', async () => {
    await insert(teamOf('crew'), memberOf('ann'), memberOf('bob', { workspaceId: null }))
    const [first, second] = [keyOf('m1'), keyOf('m2')]
    await addTask(second, 2)
    await addTask(first, 1)
    await addTask(keyOf('m1', { agent: 'bob' }), 1)
    expect(await store.findAssignment(database.read, first)).toEqual(assignment)
    const begin = () => write((tx) => store.beginTask(tx, first))
    expect([await begin(), await begin()]).toEqual([true, false])
    const note = (key: TaskKey) => write((tx) => store.noteJob(tx, key, 2 ** 31))
    expect([await note(first), await note(second)]).toEqual([true, false])
    expect(await store.openTasksOnNode(database.read, 'here')).toEqual([
      { ...first, state: 'running', jobId: 2 ** 31, workspaceId: 'w-ann' },
      { ...second, state: 'queued', jobId: null, workspaceId: 'w-ann' },
      { ...keyOf('m1', { agent: 'bob' }), state: 'queued', jobId: null, workspaceId: null },
    ])
    const finish = (key: TaskKey) => write((tx) => store.finishTask(tx, key, resultOf(key)))
    expect([await finish(first), await finish(first), await finish(second)]).toEqual([true, false, true])
    expect(await begin()).toBe(false)
    expect(await store.taskCounts(database.read, ACME, 'crew')).toEqual(
      new Map([
        ['ann', { queued: 0, running: 0, done: 2 }],
        ['bob', { queued: 1, running: 0, done: 0 }],
      ]),
    )
    const finished = (afterSeq: number, limit: number) =>
      store.listFinished(database.read, ACME, { team: 'crew', agent: 'ann', afterSeq, limit })
    expect(await finished(0, 10)).toEqual([
      { seq: 1, messageId: 'm1', result: resultOf(first) },
      { seq: 2, messageId: 'm2', result: resultOf(second) },
    ])
    expect((await finished(1, 1)).map(({ messageId }) => messageId)).toEqual(['m2'])
    await write((tx) => store.deleteTask(tx, first))
    expect((await finished(0, 10)).map(({ messageId }) => messageId)).toEqual(['m2'])
    expect(await store.findAssignment(database.read, first)).toBeUndefined()
  })

  it('shows open tasks only of teams that are ready, on their node', async () => {
    await insert(teamOf('crew', { state: 'destroying' }), memberOf('ann'))
    await insert(teamOf('far', { node: 'there' }), memberOf('ann'))
    await insert(teamOf('crew', { tenant: OTHER }), memberOf('ann'))
    for (const key of [keyOf('m'), keyOf('m', { team: 'far' }), keyOf('m', { tenant: OTHER })]) await addTask(key, 1)
    expect((await store.openTasksOnNode(database.read, 'here')).map(({ tenant }) => tenant)).toEqual([OTHER])
  })

  it('deletes a team with all that is its own, and nothing of another', async () => {
    for (const [tenant, name] of [
      [ACME, 'crew'],
      [ACME, 'other'],
      [OTHER, 'crew'],
    ] as const) {
      await insert(teamOf(name, { tenant }), memberOf('ann'))
      await addTask(keyOf('m', { tenant, team: name }), 1)
      const at = { team: name, recipient: 'ann' }
      await write((tx) => store.addMessage(tx, tenant, at, messageOf(1)), tenant)
    }
    await write((tx) => store.deleteTeam(tx, ACME, 'crew'))
    const left = async (tenant: TenantId, name: string) => [
      (await store.findTeam(database.read, tenant, name)) !== undefined,
      (await store.listMembers(database.read, tenant, name)).length,
      await store.countMessages(database.read, tenant, name, 'ann'),
      (await store.taskCounts(database.read, tenant, name)).size,
    ]
    expect(await left(ACME, 'crew')).toEqual([false, 0, 0, 0])
    expect(await left(ACME, 'other')).toEqual([true, 1, 1, 1])
    expect(await left(OTHER, 'crew')).toEqual([true, 1, 1, 1])
  })

  it('writes nothing with the transaction of another tenant', async () => {
    await insert(teamOf('crew'), memberOf('ann'))
    const foreign = write((tx) => store.deleteTeam(tx, ACME, 'crew'), OTHER)
    await expect(foreign).rejects.toThrow('another tenant')
    expect(await store.findTeam(database.read, ACME, 'crew')).toBeDefined()
  })
})
