import type { Selectable } from 'kysely'
import { tenantId } from '../../contract/principal.ts'
import type {
  OpenTask,
  TaskAssignment,
  TaskCounts,
  TaskResult,
  TeamMessage,
  TeamStore,
} from '../../domains/teams/ports.ts'
import type { TeamMessageTable, TeamTaskTable } from './schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type MessageRow = Selectable<TeamMessageTable>
type TaskRow = Selectable<TeamTaskTable>
type InTeam = { tenant: string; team: string }
type ToAgent = InTeam & { recipient: string }
type OfTask = InTeam & { agent: string; message_id: string }

const insertMessage = statement<MessageRow>('team-store.insertMessage')((db, _arg, { columns }) =>
  db
    .insertInto('team_messages')
    .values(columns(['tenant', 'team', 'recipient', 'seq', 'id', 'sender', 'addressed_to', 'content', 'type', 'at'])),
)
const countMessages = statement<ToAgent>('team-store.countMessages')((db, arg) =>
  db
    .selectFrom('team_messages')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where('team', '=', arg('team'))
    .where('recipient', '=', arg('recipient')),
)
const listMessages = statement<ToAgent & { after: number; limit: number }>('team-store.listMessages')((db, arg) =>
  db
    .selectFrom('team_messages')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('team', '=', arg('team'))
    .where('recipient', '=', arg('recipient'))
    .where('seq', '>', arg('after'))
    .orderBy('seq')
    .limit(arg('limit')),
)
const deleteMessages = statement<ToAgent & { until: number }>('team-store.deleteMessages')((db, arg) =>
  db
    .deleteFrom('team_messages')
    .where('tenant', '=', arg('tenant'))
    .where('team', '=', arg('team'))
    .where('recipient', '=', arg('recipient'))
    .where('seq', '<=', arg('until')),
)
const insertTask = statement<TaskRow>('team-store.insertTask')((db, _arg, { columns }) =>
  db
    .insertInto('team_tasks')
    .values(columns(['tenant', 'team', 'agent', 'message_id', 'seq', 'assignment', 'state', 'job_id', 'result', 'at'])),
)
const taskCounts = statement<InTeam>('team-store.taskCounts')((db, arg) =>
  db
    .selectFrom('team_tasks')
    .select((expression) => ['agent', 'state', expression.fn.countAll<number>().as('count')])
    .where('tenant', '=', arg('tenant'))
    .where('team', '=', arg('team'))
    .groupBy(['agent', 'state']),
)
const findAssignment = statement<OfTask>('team-store.findAssignment')((db, arg) =>
  db
    .selectFrom('team_tasks')
    .select('assignment')
    .where('tenant', '=', arg('tenant'))
    .where('team', '=', arg('team'))
    .where('agent', '=', arg('agent'))
    .where('message_id', '=', arg('message_id')),
)
const beginTask = statement<OfTask>('team-store.beginTask')((db, arg) =>
  db
    .updateTable('team_tasks')
    .set({ state: 'running' })
    .where('tenant', '=', arg('tenant'))
    .where('team', '=', arg('team'))
    .where('agent', '=', arg('agent'))
    .where('message_id', '=', arg('message_id'))
    .where('state', '=', 'queued'),
)
const putTaskBack = statement<OfTask>('team-store.putTaskBack')((db, arg) =>
  db
    .updateTable('team_tasks')
    .set({ state: 'queued' })
    .where('tenant', '=', arg('tenant'))
    .where('team', '=', arg('team'))
    .where('agent', '=', arg('agent'))
    .where('message_id', '=', arg('message_id'))
    .where('state', '=', 'running')
    .where('job_id', 'is', null),
)
const noteJob = statement<OfTask & { job_id: number }>('team-store.noteJob')((db, arg) =>
  db
    .updateTable('team_tasks')
    .set({ job_id: arg('job_id') })
    .where('tenant', '=', arg('tenant'))
    .where('team', '=', arg('team'))
    .where('agent', '=', arg('agent'))
    .where('message_id', '=', arg('message_id'))
    .where('state', '=', 'running'),
)
const finishTask = statement<OfTask & { result: string }>('team-store.finishTask')((db, arg) =>
  db
    .updateTable('team_tasks')
    .set({ state: 'done', result: arg('result') })
    .where('tenant', '=', arg('tenant'))
    .where('team', '=', arg('team'))
    .where('agent', '=', arg('agent'))
    .where('message_id', '=', arg('message_id'))
    .where('state', '!=', 'done'),
)
const listFinished = statement<InTeam & { agent: string; after: number; limit: number }>('team-store.listFinished')(
  (db, arg) =>
    db
      .selectFrom('team_tasks')
      .select(['seq', 'message_id', 'result'])
      .where('tenant', '=', arg('tenant'))
      .where('team', '=', arg('team'))
      .where('agent', '=', arg('agent'))
      .where('state', '=', 'done')
      .where('seq', '>', arg('after'))
      .orderBy('seq')
      .limit(arg('limit')),
)
const deleteTask = statement<OfTask>('team-store.deleteTask')((db, arg) =>
  db
    .deleteFrom('team_tasks')
    .where('tenant', '=', arg('tenant'))
    .where('team', '=', arg('team'))
    .where('agent', '=', arg('agent'))
    .where('message_id', '=', arg('message_id')),
)
const openTasksOnNode = statement<{ node: string }>('team-store.openTasksOnNode')((db, arg) =>
  db
    .selectFrom('team_tasks')
    .innerJoin('teams', (join) =>
      join.onRef('teams.tenant', '=', 'team_tasks.tenant').onRef('teams.name', '=', 'team_tasks.team'),
    )
    .innerJoin('team_members', (join) =>
      join
        .onRef('team_members.tenant', '=', 'team_tasks.tenant')
        .onRef('team_members.team', '=', 'team_tasks.team')
        .onRef('team_members.name', '=', 'team_tasks.agent'),
    )
    .select(['team_tasks.tenant', 'team_tasks.team', 'team_tasks.agent', 'team_tasks.message_id', 'team_tasks.state'])
    .select(['team_tasks.job_id', 'team_members.workspace_id'])
    .where('teams.node', '=', arg('node'))
    .where('teams.state', '=', 'ready')
    .where('team_tasks.state', '!=', 'done')
    .orderBy('team_tasks.tenant')
    .orderBy('team_tasks.team')
    .orderBy('team_tasks.agent')
    .orderBy('team_tasks.seq'),
)

const ofTask = ({ tenant, team, agent, messageId }: Parameters<TeamStore['deleteTask']>[1]): OfTask => ({
  tenant,
  team,
  agent,
  message_id: messageId,
})

/** Messages and tasks of team members: the part of the store that grows. */
export const sqlTeamInboxes = {
  async addMessage(tx, tenant, { team, recipient }, message) {
    const { seq, id, sender, addressedTo, content, type, atMs } = message
    const row = { tenant, team, recipient, seq, id, sender, addressed_to: addressedTo, content, type, at: atMs }
    await writerOf(tx, tenant).run(insertMessage, row)
  },
  async countMessages(tx, tenant, team, recipient) {
    return (await sessionOf(tx).get(countMessages, { tenant, team, recipient }))?.count ?? 0
  },
  async listMessages(tx, tenant, { team, recipient, afterSeq, limit }) {
    return (await sessionOf(tx).all(listMessages, { tenant, team, recipient, after: afterSeq, limit })).map(fromMessage)
  },
  async deleteMessages(tx, tenant, { team, recipient, untilSeq }) {
    await writerOf(tx, tenant).run(deleteMessages, { tenant, team, recipient, until: untilSeq })
  },
} satisfies Partial<TeamStore>

export const sqlTeamTasks = {
  async addTask(tx, key, { seq, assignment, atMs }) {
    await writerOf(tx, key.tenant).run(insertTask, {
      ...ofTask(key),
      seq,
      assignment: JSON.stringify(assignment),
      state: 'queued',
      job_id: null,
      result: null,
      at: atMs,
    })
  },
  async taskCounts(tx, tenant, team) {
    const counts = new Map<string, TaskCounts>()
    for (const { agent, state, count } of await sessionOf(tx).all(taskCounts, { tenant, team })) {
      counts.set(agent, { ...(counts.get(agent) ?? { queued: 0, running: 0, done: 0 }), [state]: count })
    }
    return counts
  },
  async findAssignment(tx, key) {
    const found = await sessionOf(tx).get(findAssignment, ofTask(key))
    return found === undefined ? undefined : (JSON.parse(found.assignment) as TaskAssignment)
  },
  async putTaskBack(tx, key) {
    await writerOf(tx, key.tenant).run(putTaskBack, ofTask(key))
  },
  async beginTask(tx, key) {
    return (await writerOf(tx, key.tenant).run(beginTask, ofTask(key))) > 0
  },
  async noteJob(tx, key, jobId) {
    return (await writerOf(tx, key.tenant).run(noteJob, { ...ofTask(key), job_id: jobId })) > 0
  },
  async finishTask(tx, key, result) {
    const row = { ...ofTask(key), result: JSON.stringify(result) }
    return (await writerOf(tx, key.tenant).run(finishTask, row)) > 0
  },
  async listFinished(tx, tenant, { team, agent, afterSeq, limit }) {
    const rows = await sessionOf(tx).all(listFinished, { tenant, team, agent, after: afterSeq, limit })
    return rows.map(({ seq, message_id, result }) => ({
      seq,
      messageId: message_id,
      result: JSON.parse(result!) as TaskResult,
    }))
  },
  async deleteTask(tx, key) {
    await writerOf(tx, key.tenant).run(deleteTask, ofTask(key))
  },
  async openTasksOnNode(tx, node) {
    return (await sessionOf(tx).all(openTasksOnNode, { node })).map((row) => ({
      tenant: tenantId(row.tenant),
      team: row.team,
      agent: row.agent,
      messageId: row.message_id,
      state: row.state as OpenTask['state'],
      jobId: row.job_id,
      workspaceId: row.workspace_id,
    }))
  },
} satisfies Partial<TeamStore>

const fromMessage = (row: MessageRow): TeamMessage => ({
  seq: row.seq,
  id: row.id,
  sender: row.sender,
  addressedTo: row.addressed_to,
  content: row.content,
  type: row.type,
  atMs: row.at,
})
