import { sha256Bytes } from '../../kernel/hash.ts'
import type { ReportFinding } from './findings.ts'
import type { FsckHead, FsckLogRow } from './source.ts'

/**
 * Checks every stored node against the hashes of its own two children as stored, and every leaf against its record.
 * When all of these hold, all nodes are right; when one does not, the finding is at the place of the damage and not at
 * every node above it. After missing rows, only what can still be judged is judged.
 */
export type TreeCheck = Readonly<{
  add(row: FsckLogRow): void
  /** The root over the entries so far; undefined when rows are missing. */
  root(): Buffer | undefined
  checkHead(head: FsckHead): void
  size(): number
}>

type Subtree = Readonly<{ index: number; hash: Buffer }>

export function createTreeCheck(report: ReportFinding): TreeCheck {
  // Index = level: the last subtree with an even index, which is the left partner of the next one.
  const lefts: (Subtree | undefined)[] = []
  let size = 0

  const peaks = (): Buffer[] | undefined => {
    const hashes: Buffer[] = []
    for (let level = lefts.length - 1; level >= 0; level--) {
      const width = 2 ** level
      if (Math.floor(size / width) % 2 === 0) continue
      const left = lefts[level]
      if (left?.index !== Math.floor(size / width) - 1) return undefined
      hashes.push(left.hash)
    }
    const covered = size === 0 || 2 ** lefts.length > size
    return covered ? hashes : undefined
  }

  return {
    add({ seq, record, nodes }) {
      const stored = Buffer.from(nodes.buffer, nodes.byteOffset, nodes.byteLength)
      const levels = completedLevels(seq)
      if (stored.length !== 32 * levels) {
        const detail = `${stored.length} bytes instead of ${32 * levels}.`
        report({ table: 'log_entries', row: String(seq), rule: 'log.nodes', field: 'nodes', detail })
      }
      let computed: Buffer | undefined = sha256Bytes(Buffer.concat([Buffer.of(0), Buffer.from(record, 'utf8')]))
      let index = seq
      for (let level = 0; level < levels; level++) {
        const kept = stored.subarray(32 * level, 32 * level + 32)
        const isWhole = kept.length === 32
        if (isWhole && computed !== undefined && !kept.equals(computed)) {
          report({
            table: 'log_entries',
            row: String(seq),
            rule: 'log.nodes',
            field: `level ${level}`,
            expected: computed.toString('hex'),
            actual: kept.toString('hex'),
          })
        }
        const node: Buffer | undefined = isWhole ? Buffer.from(kept) : computed
        if (index % 2 === 0) {
          lefts[level] = node === undefined ? undefined : { index, hash: node }
          break
        }
        const left: Subtree | undefined = lefts[level]
        computed = left?.index === index - 1 && node !== undefined ? joined(left.hash, node) : undefined
        index = (index - 1) / 2
      }
      size = seq + 1
    },
    root() {
      const hashes = peaks()
      if (hashes === undefined) return undefined
      return size === 0 ? sha256Bytes('') : hashes.reduceRight((right, left) => joined(left, right))
    },
    checkHead(head) {
      if (head.size !== size) {
        report({ table: 'log_heads', row: 'head', rule: 'head.size', field: 'size', expected: size, actual: head.size })
      }
      const hashes = peaks()
      const actual = Buffer.from(head.peaks)
      if (hashes === undefined || head.size !== size) return
      const expected = Buffer.concat(hashes)
      if (!expected.equals(actual)) {
        report({
          table: 'log_heads',
          row: 'head',
          rule: 'head.peaks',
          field: 'peaks',
          expected: expected.toString('hex'),
          actual: actual.toString('hex'),
        })
      }
    },
    size: () => size,
  }
}

function completedLevels(seq: number): number {
  let levels = 1
  for (let rest = seq; rest % 2 === 1; rest = (rest - 1) / 2) levels++
  return levels
}

const joined = (left: Buffer, right: Buffer): Buffer => sha256Bytes(Buffer.concat([Buffer.of(1), left, right]))
