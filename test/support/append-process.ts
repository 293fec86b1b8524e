/**
 * A process that writes to a PostgreSQL database beside others: `append-process.ts URL NAME COUNT TENANT…`.
 * Each record names the writer and its turn; every seventh transaction fails on purpose. Many tenants share a batch, so
 * processes that locked them in different orders would wait for each other.
 */
import { tenantId } from '../../src/contract/principal.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { openPostgresDatabase } from '../../src/stores/postgres/postgres-database.ts'
import { sqlLogStore as log } from '../../src/stores/sql/log-store.ts'
import { addTaskIn } from './sample-tasks.ts'

const [url, name, count, ...tenants] = process.argv.slice(2)
const database = await openPostgresDatabase({ url: url!, clock: systemClock, logger: silentLogger })
const write = (turn: number) => {
  const tenant = tenantId(tenants[turn % tenants.length]!)
  return database.write(tenant, async (tx) => {
    const task = await addTaskIn(tx, tenant, { title: `${name} ${turn}` })
    if (turn % 7 === 6) throw new Error('on purpose')
    await log.appendEntry(tx, tenant, {
      atMs: systemClock.nowMs(),
      record: JSON.stringify({ writer: name, turn, task: task.number }),
      taskNumber: task.number,
      recordHash: 'h',
    })
  })
}
const outcomes = await Promise.allSettled(Array.from({ length: Number(count) }, (_, turn) => write(turn)))
await database.close()
const unexpected = outcomes.find((outcome, turn) => (outcome.status === 'rejected') !== (turn % 7 === 6))
if (unexpected !== undefined) throw new Error('a write went otherwise than planned', { cause: unexpected })
console.log(outcomes.filter((outcome) => outcome.status === 'fulfilled').length)
