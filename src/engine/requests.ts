import { identityOf, type TenantId } from '../contract/principal.ts'
import type { WriteTx } from '../contract/tx.ts'
import type { Json } from '../kernel/canonical-json.ts'
import type { EngineDeps } from './core.ts'
import { appendToRun } from './journal.ts'
import { type ChangingCall, isEnded, type Run, type SignalActor, type SignallingCall } from './ports.ts'

/** Requests of callers, each in the transaction of its call; `scheduleReconcile` carries them out after the commit. */
export function createRequests(deps: EngineDeps, scheduleReconcile: (tenant: TenantId, id: string) => void) {
  const { store } = deps

  async function cancel(call: ChangingCall, id: string): Promise<boolean> {
    const { tenant } = call.principal
    const run = await store.findRun(call.write, tenant, id)
    if (run === undefined || isEnded(run)) return false
    for (const one of await descendants(call.write, run)) {
      if (isEnded(one) || one.cancelRequested) continue
      const row = { type: 'cancel_requested', payload: { by: call.principal.actor } }
      await appendToRun(deps, call.write, one, call.nowMs, [row], { cancelRequested: true })
      scheduleReconcile(tenant, one.id)
    }
    call.record({ kind: 'run_cancel_requested', body: { run_id: id } })
    return true
  }

  /** The run and all its child runs. */
  async function descendants(tx: WriteTx, run: Run): Promise<Run[]> {
    const all = await store.runsUnder(tx, run.tenant, run.rootId)
    const found = all.filter(({ id }) => id === run.id)
    for (const one of found) found.push(...all.filter(({ parentId }) => parentId === one.id))
    return found
  }

  async function signal(call: SignallingCall, id: string, payload: Json, key: string): Promise<boolean> {
    const { principal, transport } = call
    const { tenant } = principal
    const run = await store.findRun(call.write, tenant, id)
    if (run === undefined || isEnded(run) || run.waitingFor !== key) return false
    const actor: SignalActor = {
      name: principal.actor,
      identity: identityOf(principal),
      ...(transport && { door: transport }),
    }
    const row = { type: 'signal_received', key, payload: { kind: 'signal', payload, actor } }
    await appendToRun(deps, call.write, run, call.nowMs, [row], { waitingFor: null, wakeAtMs: null })
    call.record({ kind: 'run_signalled', body: { run_id: id } })
    scheduleReconcile(tenant, id)
    return true
  }

  async function remove(call: ChangingCall, id: string): Promise<boolean> {
    const { tenant } = call.principal
    const run = await store.findRun(call.write, tenant, id)
    if (run === undefined || !isEnded(run)) return false
    const all = await descendants(call.write, run)
    if (!all.every(isEnded)) return false
    for (const one of all) {
      await store.deleteRun(call.write, tenant, one.id)
      call.record({ kind: 'run_removed', body: { run_id: one.id } })
    }
    return true
  }

  return { cancel, signal, remove }
}
