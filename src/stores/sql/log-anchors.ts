import type { AnchorStore } from '../../audit/ports.ts'
import type { Database } from '../../contract/database.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

const findAnchor = statement<{ node: string; tenant: string }>('log-anchors.findAnchor')((db, arg) =>
  db.selectFrom('log_anchors').select('size').where('node', '=', arg('node')).where('tenant', '=', arg('tenant')),
)
const findAnyAnchor = statement<{ tenant: string }>('log-anchors.findAnyAnchor')((db, arg) =>
  db.selectFrom('log_anchors').select('size').where('tenant', '=', arg('tenant')).limit(1),
)
const insertAnchor = statement<{ node: string; tenant: string; size: number }>('log-anchors.insertAnchor')((db, arg) =>
  db
    .insertInto('log_anchors')
    .values({ node: arg('node'), tenant: arg('tenant'), size: arg('size') })
    .onConflict((conflict) => conflict.columns(['node', 'tenant']).doNothing()),
)

export async function findLogAnchor(tx: ReadTx, node: string, tenant: string): Promise<number | undefined> {
  return (await sessionOf(tx).get(findAnchor, { node, tenant }))?.size
}

export async function isLogAnchored(tx: ReadTx, tenant: string): Promise<boolean> {
  return (await sessionOf(tx).get(findAnyAnchor, { tenant })) !== undefined
}

/** One row for each tenant, written once: later ones would add nothing. */
export const sqlAnchors = (database: Pick<Database, 'read' | 'write'>, node: string): AnchorStore => ({
  find: (tenant) => findLogAnchor(database.read, node, tenant),
  note: (tenant, size) =>
    database.write(tenant, async (tx) => {
      await writerOf(tx, tenant).run(insertAnchor, { node, tenant, size })
    }),
})
