import type { Database } from '../../contract/database.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ContextKey, Trust } from '../../contract/trust.ts'
import type { Clock } from '../../kernel/clock.ts'

type InheritingDeps = Readonly<{
  trust: Pick<Trust, 'contextOf' | 'credentialOf' | 'isTainted' | 'mayHaveTaints' | 'taint'>
  database: Pick<Database, 'write'>
  clock: Pick<Clock, 'nowMs'>
}>

/** A caller gets something outside a call of a tool that was written in another context: it is no more trusted than that. */
export async function inheritTrust(
  { trust, database, clock }: InheritingDeps,
  reader: Principal,
  findContext: () => ContextKey | Promise<ContextKey>,
): Promise<void> {
  const { tenant } = reader
  const context = trust.contextOf(reader)
  if (!trust.mayHaveTaints(tenant) || (await trust.isTainted(tenant, context))) return
  const from = await findContext()
  if (from === context || !(await trust.isTainted(tenant, from))) return
  const taint = { context, cause: { kind: 'inherited', from }, credential: trust.credentialOf(reader) } as const
  await database.write(tenant, (tx) => trust.taint(tx, tenant, taint, clock.nowMs()))
}
