import { checkpointOrigin, openCheckpoint } from '../../audit/checkpoint.ts'
import { consistencyDocument, exportHeaderLine, proofDocument } from '../../audit/export-format.ts'
import type { LogGuard } from '../../audit/log-guard.ts'
import { createNodeReader, damaged } from '../../audit/node-reader.ts'
import type { LogStore } from '../../audit/ports.ts'
import { assembleProof, planConsistency, planInclusion, plannedNodes } from '../../audit/proof.ts'
import { rootOf } from '../../audit/tree.ts'
import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { LogIdentity } from './ports.ts'

export type LogService = ReturnType<typeof createLogService>

/** A page ends here even if more entries would fit by count, so that an answer stays well below its limit. */
const EXPORT_PAGE_BYTES_MAX = 2 * 1024 * 1024

/** What a third party needs to verify the caller's log without the server: checkpoints, proofs, and the entries themselves. */
export function createLogService(deps: { log: LogStore; identity: LogIdentity; guard: Pick<LogGuard, 'sign'> }) {
  const { log } = deps
  const { logId, signer } = deps.identity
  const { rootAt, readNodes } = createNodeReader(log)

  /** Never inside a snapshot, which holds a connection: storing a checkpoint needs another one. */
  const sign = (tenant: TenantId, size: number, root: Buffer): Promise<string> =>
    deps.guard.sign(tenant, { size, root })

  async function checkpoint(call: Call) {
    const { tenant } = call.principal
    const { size, peaks } = await log.head(call.read, tenant)
    const root = rootOf(size, peaks)
    return {
      origin: checkpointOrigin(logId, tenant),
      size,
      root: root.toString('hex'),
      checkpoint: await sign(tenant, size, root),
      key: signer.verifierKey,
    }
  }

  async function inclusionProof(call: Call, input: { seq: number; size?: number | undefined }) {
    const { tenant } = call.principal
    const found = await call.snapshot(async (tx) => {
      const head = await log.head(tx, tenant)
      const size = input.size ?? head.size
      requireSize(size, head.size, 'size')
      if (input.seq >= size) {
        throw new AppError('ERR_NOT_FOUND', `The log has no entry ${input.seq} at size ${size}.`, {
          field: 'seq',
          size,
        })
      }
      const [entry] = await log.entries(tx, tenant, input.seq, 1)
      if (entry?.seq !== input.seq) throw damaged(input.seq)
      const plan = planInclusion(input.seq, size)
      const root = await rootAt(tx, tenant, size)
      const nodes = await readNodes(tx, tenant, plannedNodes(plan))
      return { size, root, record: entry.record, proof: assembleProof(plan, nodes) }
    })
    const { root, ...rest } = found
    const checkpoint = await sign(tenant, found.size, root)
    return proofDocument({ checkpoint, verifierKey: signer.verifierKey, index: input.seq, ...rest })
  }

  async function consistencyProof(
    call: Call,
    input: { old_size?: number | undefined; old_checkpoint?: string | undefined; new_size?: number | undefined },
  ) {
    const { tenant } = call.principal
    const { oldSize, oldRoot, newSize, newRoot, proof } = await call.snapshot(async (tx) => {
      const head = await log.head(tx, tenant)
      const oldSize = input.old_size ?? sizeOfCheckpoint(tenant, input.old_checkpoint)
      const newSize = input.new_size ?? head.size
      requireSize(newSize, head.size, 'new_size')
      requireSize(oldSize, newSize, input.old_size === undefined ? 'old_checkpoint' : 'old_size')
      const plan = planConsistency(oldSize, newSize)
      const nodes = await readNodes(tx, tenant, plannedNodes(plan))
      const oldRoot = await rootAt(tx, tenant, oldSize)
      const newRoot = await rootAt(tx, tenant, newSize)
      return { oldSize, oldRoot, newSize, newRoot, proof: assembleProof(plan, nodes) }
    })
    return consistencyDocument({
      oldCheckpoint: input.old_checkpoint ?? (await sign(tenant, oldSize, oldRoot)),
      newCheckpoint: await sign(tenant, newSize, newRoot),
      verifierKey: signer.verifierKey,
      proof,
    })
  }

  async function exportPage(call: Call, input: { from: number; limit: number; size?: number | undefined }) {
    const { tenant } = call.principal
    const { root, ...page } = await call.snapshot(async (tx) => {
      const head = await log.head(tx, tenant)
      const size = input.size ?? head.size
      requireSize(size, head.size, 'size')
      const lines: string[] = []
      const root = input.from === 0 ? await rootAt(tx, tenant, size) : undefined
      let bytes = 0
      let next = input.from
      const count = Math.max(0, Math.min(input.limit, limits.exportPageMax, size - input.from))
      for (const entry of count === 0 ? [] : await log.entries(tx, tenant, input.from, count)) {
        if (entry.seq !== next) throw damaged(next)
        if (bytes > 0 && bytes + entry.record.length > EXPORT_PAGE_BYTES_MAX) break
        bytes += entry.record.length
        lines.push(entry.record)
        next++
      }
      return { root, size, from: input.from, lines, next_from: next < size ? next : null }
    })
    if (root === undefined) return page
    const { verifierKey } = signer
    const { size } = page
    const checkpoint = await sign(tenant, size, root)
    const header = exportHeaderLine({ origin: checkpointOrigin(logId, tenant), tenant, size, checkpoint, verifierKey })
    return { ...page, lines: [header.trimEnd(), ...page.lines] }
  }

  function sizeOfCheckpoint(tenant: TenantId, note: string | undefined): number {
    if (note === undefined) {
      throw new AppError('ERR_INVALID_INPUT', "Give 'old_size' or 'old_checkpoint': the state to start from.", {
        field: 'old_size',
        constraint: 'old_size or old_checkpoint is required',
      })
    }
    const opened = openOldCheckpoint(note)
    if (opened.origin === checkpointOrigin(logId, tenant)) return opened.size
    throw new AppError('ERR_INVALID_INPUT', "'old_checkpoint' belongs to another log.", { field: 'old_checkpoint' })
  }

  function openOldCheckpoint(note: string) {
    try {
      return openCheckpoint(note, signer.verifierKey)
    } catch (cause) {
      if (!(cause instanceof AppError)) throw cause
      const rule = 'a checkpoint as log_checkpoint answers it, line feeds included'
      throw new AppError(
        'ERR_INVALID_INPUT',
        `'old_checkpoint' must be ${rule}. ${cause.message}`,
        { field: 'old_checkpoint', constraint: rule },
        { cause },
      )
    }
  }

  return { checkpoint, inclusionProof, consistencyProof, exportPage }
}

function requireSize(size: number, max: number, field: string): void {
  if (size <= max) return
  throw new AppError('ERR_INVALID_INPUT', `'${field}' must be at most ${max}, the size it is compared with.`, {
    field,
    constraint: `at most ${max}`,
  })
}
