import { toLogEntry } from '../../audit/call-entry.ts'
import type { Checkpointer } from '../../audit/checkpointer.ts'
import type { LogGuard, Recovery } from '../../audit/log-guard.ts'
import type { LogStore } from '../../audit/ports.ts'
import { AppError } from '../../contract/app-error.ts'
import type { Call, EffectRecord } from '../../contract/call.ts'
import type { Database } from '../../contract/database.ts'
import { isPlatformOperator, LOCAL_TENANT, type TenantId, tenantId } from '../../contract/principal.ts'
import { isoTime } from '../../kernel/clock.ts'

export type LogRecoveryService = ReturnType<typeof createLogRecovery>

/**
 * Continues logs that do not extend their checkpoint, at an operator's decision. The abandoned checkpoint is stored
 * beside the others, and in the logs of that operator and of the tenant concerned.
 */
export function createLogRecovery(deps: {
  log: Pick<LogStore, 'appendEntry'>
  database: Pick<Database, 'write'>
  guard: Pick<LogGuard, 'halted' | 'recover'>
  checkpointer: Pick<Checkpointer, 'run'>
}) {
  const { guard } = deps

  async function recover(call: Call, input: { tenant?: string | undefined; reason: string }) {
    if (!isPlatformOperator(call.principal)) throw notOperator()
    await deps.checkpointer.run()
    const tenants = input.tenant === undefined ? guard.halted() : [tenantId(input.tenant)]
    const name = isoTime(call.nowMs).replaceAll(':', '')
    const recovered = []
    for (const tenant of tenants) {
      const recovery = await guard.recover(tenant, name)
      if (recovery === undefined) throw notHalted(tenant)
      const effect = effectOf(tenant, input.reason, recovery)
      call.record(effect)
      if (tenant !== call.principal.tenant) await recordThere(call, tenant, effect)
      const { problem, size, root, evidence } = recovery
      recovered.push({ tenant, problem, size, root, evidence })
    }
    return { recovered }
  }

  /** The people of another tenant see in their own log why it does not extend a checkpoint that they saved. */
  function recordThere(call: Call, tenant: TenantId, effect: EffectRecord): Promise<void> {
    const entry = toLogEntry({
      callId: call.id,
      atMs: call.nowMs,
      principal: { ...call.principal, tenant },
      transport: call.transport,
      tool: 'log_recover',
      inputDigest: 'unread',
      outcome: 'ok',
      durationMs: 0,
      decisions: [],
      effects: [effect],
    })
    return deps.database.write(tenant, (tx) => deps.log.appendEntry(tx, tenant, entry))
  }

  return { recover }
}

const effectOf = (tenant: TenantId, reason: string, { problem, size, root, oldCheckpoint, evidence }: Recovery) => ({
  kind: 'log_recovered',
  body: { tenant, reason, problem, size, root, old_checkpoint: oldCheckpoint, evidence },
})

const notOperator = (): AppError =>
  new AppError('ERR_PERMISSION_DENIED', `Only an operator of the tenant '${LOCAL_TENANT}' may recover logs.`, {
    rule: 'operator of the installation',
  })

const notHalted = (tenant: TenantId): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `'tenant': the log of '${tenant}' extends its checkpoint; there is nothing to recover.`,
    {
      field: 'tenant',
    },
  )
