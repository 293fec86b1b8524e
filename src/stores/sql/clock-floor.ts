import type { ClockFloorStore } from '../../domains/server/ports.ts'
import { statement } from './statements.ts'
import { sessionOf, sharedWriterOf } from './tx.ts'

const findFloor = statement<Record<never, never>>('clock-floor.findFloor')((db) =>
  db.selectFrom('clock_floor').select('at'),
)
const raiseFloor = statement<{ at: number }>('clock-floor.raiseFloor')((db, arg) =>
  db
    .insertInto('clock_floor')
    .values({ only_row: 0, at: arg('at') })
    .onConflict((conflict) =>
      conflict
        .column('only_row')
        .doUpdateSet((row) => ({ at: row.ref('excluded.at') }))
        .whereRef('clock_floor.at', '<', 'excluded.at'),
    ),
)
const resetFloor = statement<{ at: number }>('clock-floor.resetFloor')((db, arg) =>
  db.updateTable('clock_floor').set({ at: arg('at') }),
)

/** The latest recorded time of any process on this store: one row, for all tenants and processes. */
export const sqlClockFloor: ClockFloorStore = {
  find: async (tx) => (await sessionOf(tx).get(findFloor, {}))?.at,
  async raise(tx, atMs) {
    await sharedWriterOf(tx).run(raiseFloor, { at: atMs })
  },
  async reset(tx, atMs) {
    await sharedWriterOf(tx).run(resetFloor, { at: atMs })
  },
}
