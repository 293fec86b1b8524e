import type { Insertable } from 'kysely'
import type { Database } from '../../contract/database.ts'
import type { ForwardedAnswers } from '../../contract/forwarded-answers.ts'
import { limits } from '../../contract/limits.ts'
import type { PassedAnswerTable } from './governance-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type RowId = { tenant: string; key_hash: string }

const insert = statement<Insertable<PassedAnswerTable>>('forwarded-answer-store.insert')((db, _arg, { columns }) =>
  db
    .insertInto('passed_answers')
    .values({
      ...columns(['tenant', 'key_hash', 'sender', 'answer', 'created_at']),
      taken_at: null,
      notices: null,
      outcome: null,
    })
    .onConflict((conflict) => conflict.doNothing()),
)
const get = statement<RowId>('forwarded-answer-store.get')((db, arg) =>
  db
    .selectFrom('passed_answers')
    .select(['sender', 'answer', 'taken_at', 'notices', 'outcome'])
    .where('tenant', '=', arg('tenant'))
    .where('key_hash', '=', arg('key_hash')),
)
const take = statement<RowId & { at: number }>('forwarded-answer-store.take')((db, arg) =>
  db
    .updateTable('passed_answers')
    .set({ taken_at: arg('at') })
    .where('tenant', '=', arg('tenant'))
    .where('key_hash', '=', arg('key_hash'))
    .where('taken_at', 'is', null),
)
const touch = statement<RowId & { at: number }>('forwarded-answer-store.touch')((db, arg) =>
  db
    .updateTable('passed_answers')
    .set({ taken_at: arg('at') })
    .where('tenant', '=', arg('tenant'))
    .where('key_hash', '=', arg('key_hash')),
)
const tell = statement<RowId & { notices: string }>('forwarded-answer-store.tell')((db, arg) =>
  db
    .updateTable('passed_answers')
    .set({ notices: arg('notices') })
    .where('tenant', '=', arg('tenant'))
    .where('key_hash', '=', arg('key_hash')),
)
const finish = statement<RowId & { outcome: string; notices: string | null }>('forwarded-answer-store.finish')(
  (db, arg) =>
    db
      .updateTable('passed_answers')
      .set({ outcome: arg('outcome'), notices: arg('notices') })
      .where('tenant', '=', arg('tenant'))
      .where('key_hash', '=', arg('key_hash')),
)
const remove = statement<RowId & { sender: string }>('forwarded-answer-store.remove')((db, arg) =>
  db
    .deleteFrom('passed_answers')
    .where('tenant', '=', arg('tenant'))
    .where('key_hash', '=', arg('key_hash'))
    .where('sender', '=', arg('sender')),
)
const removeOld = statement<{ tenant: string; before: number }>('forwarded-answer-store.removeOld')((db, arg) =>
  db.deleteFrom('passed_answers').where('tenant', '=', arg('tenant')).where('created_at', '<', arg('before')),
)

/** Rows that their senders did not remove. */
const removeFinished = statement<RowId & { before: number }>('forwarded-answer-store.removeFinished')((db, arg) =>
  db
    .deleteFrom('passed_answers')
    .where('tenant', '=', arg('tenant'))
    .where('key_hash', '=', arg('key_hash'))
    .where('created_at', '<', arg('before'))
    .where('outcome', 'is not', null),
)

/** Each change is a commit of its own. */
export const sqlForwardedAnswers = (database: Pick<Database, 'read' | 'write'>): ForwardedAnswers => ({
  put: (tenant, { keyHash: key_hash, sender, answer }, atMs) =>
    database.write(tenant, async (tx) => {
      const writer = writerOf(tx, tenant)
      await writer.run(removeOld, { tenant, before: atMs - limits.mcpPassedAnswerMs })
      await writer.run(removeFinished, { tenant, key_hash, before: atMs - limits.mcpPassedOutcomeMs })
      return (await writer.run(insert, { tenant, key_hash, sender, answer, created_at: atMs })) === 1
    }),
  async take(tenant, key_hash, atMs) {
    const row = await sessionOf(database.read).get(get, { tenant, key_hash })
    if (row === undefined || row.taken_at !== null) return undefined
    const isTaken = await database.write(
      tenant,
      async (tx) => (await writerOf(tx, tenant).run(take, { tenant, key_hash, at: atMs })) === 1,
    )
    return isTaken ? row.answer : undefined
  },
  touch: (tenant, key_hash, atMs) =>
    database.write(tenant, async (tx) => (await writerOf(tx, tenant).run(touch, { tenant, key_hash, at: atMs })) === 1),
  tell: (tenant, key_hash, notices) =>
    database.write(tenant, async (tx) => {
      await writerOf(tx, tenant).run(tell, { tenant, key_hash, notices })
    }),
  finish: (tenant, key_hash, outcome, notices) =>
    database.write(tenant, async (tx) => {
      await writerOf(tx, tenant).run(finish, { tenant, key_hash, outcome, notices })
    }),
  async find(tenant, key_hash, sender) {
    const row = await sessionOf(database.read).get(get, { tenant, key_hash })
    if (row?.sender !== sender) return undefined
    return { takenAtMs: row.taken_at, notices: row.notices, outcome: row.outcome }
  },
  remove: (tenant, key_hash, sender) =>
    database.write(tenant, async (tx) => {
      await writerOf(tx, tenant).run(remove, { tenant, key_hash, sender })
    }),
})
