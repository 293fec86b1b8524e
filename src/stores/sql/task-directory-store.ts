import type { Selectable } from 'kysely'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { TaskDirectory } from '../../contract/task-directory.ts'
import type { McpTaskTable } from './governance-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

const put = statement<Selectable<McpTaskTable>>('task-directory-store.put')((db, _arg, { columns }) =>
  db
    .insertInto('mcp_tasks')
    .values(columns(['tenant', 'id', 'identity', 'process', 'view', 'seen_at']))
    .onConflict((conflict) =>
      conflict
        .columns(['tenant', 'id'])
        .doUpdateSet((row) => ({ view: row.ref('excluded.view'), seen_at: row.ref('excluded.seen_at') })),
    ),
)
const removeOld = statement<{ tenant: string; before: number }>('task-directory-store.removeOld')((db, arg) =>
  db.deleteFrom('mcp_tasks').where('tenant', '=', arg('tenant')).where('seen_at', '<', arg('before')),
)
const noteProcess = statement<{ tenant: string; process: string; at: number }>('task-directory-store.noteProcess')(
  (db, arg) =>
    db
      .updateTable('mcp_tasks')
      .set({ seen_at: arg('at') })
      .where('tenant', '=', arg('tenant'))
      .where('process', '=', arg('process')),
)
const get = statement<{ tenant: string; id: string; since: number }>('task-directory-store.get')((db, arg) =>
  db
    .selectFrom('mcp_tasks')
    .select('process')
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id'))
    .where('seen_at', '>=', arg('since')),
)
const listElsewhere = statement<{ tenant: string; identity: string; process: string; since: number }>(
  'task-directory-store.listElsewhere',
)((db, arg) =>
  db
    .selectFrom('mcp_tasks')
    .select(['process', 'view'])
    .where('tenant', '=', arg('tenant'))
    .where('identity', '=', arg('identity'))
    .where('process', '!=', arg('process'))
    .where('seen_at', '>=', arg('since')),
)
const remove = statement<{ tenant: string; id: string }>('task-directory-store.remove')((db, arg) =>
  db.deleteFrom('mcp_tasks').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)

/** Each change is a commit of its own. */
export const sqlTaskDirectory = (database: Pick<Database, 'read' | 'write'>): TaskDirectory => ({
  put: (tenant, task, atMs) =>
    database.write(tenant, async (tx) => {
      const writer = writerOf(tx, tenant)
      await writer.run(removeOld, { tenant, before: atMs - limits.mcpPassedAnswerMs })
      await writer.run(put, { tenant, ...task, seen_at: atMs })
    }),
  noteProcess: (tenant, process, atMs) =>
    database.write(tenant, async (tx) => {
      await writerOf(tx, tenant).run(noteProcess, { tenant, process, at: atMs })
    }),
  async processOf(tenant, id, since) {
    return (await sessionOf(database.read).get(get, { tenant, id, since }))?.process
  },
  listElsewhere: async (tenant, identity, process, since) =>
    await sessionOf(database.read).all(listElsewhere, { tenant, identity, process, since }),
  remove: (tenant, id) =>
    database.write(tenant, async (tx) => {
      await writerOf(tx, tenant).run(remove, { tenant, id })
    }),
})
