import { AppError } from '../contract/app-error.ts'
import type { TenantId } from '../contract/principal.ts'
import type { ReadTx } from '../contract/tx.ts'
import type { LogStore } from './ports.ts'
import { type NodeCoordinate, nodeLocation, peakNodes } from './proof.ts'
import { emptyRoot, HASH_BYTES, innerHash } from './tree.ts'

/** Reads nodes of the stored tree, and the root it had at any size, in O(log n) rows. */
export function createNodeReader(log: Pick<LogStore, 'nodes'>) {
  async function rootAt(tx: ReadTx, tenant: TenantId, size: number): Promise<Buffer> {
    const coordinates = peakNodes(size)
    if (coordinates.length === 0) return emptyRoot()
    const read = await readNodes(tx, tenant, coordinates)
    const peaks = coordinates.map(({ level, index }) => read(level, index))
    return peaks.reduceRight((root, peak) => innerHash(peak, root))
  }

  async function readNodes(tx: ReadTx, tenant: TenantId, coordinates: readonly NodeCoordinate[]) {
    const rows = await log.nodes(
      tx,
      tenant,
      coordinates.map((coordinate) => nodeLocation(coordinate).seq),
    )
    return (level: number, index: number): Buffer => {
      const { seq, offset } = nodeLocation({ level, index })
      const nodes = rows.get(seq)
      if (nodes === undefined || nodes.length < offset + HASH_BYTES) throw damaged(seq)
      return Buffer.from(nodes.subarray(offset, offset + HASH_BYTES))
    }
  }

  return { rootAt, readNodes }
}

export const damaged = (seq: number) =>
  new AppError(
    'ERR_LOG_INVALID',
    `Entry ${seq} of the log is missing or damaged. Run castellan verify to find out what is left.`,
    { seq },
  )
