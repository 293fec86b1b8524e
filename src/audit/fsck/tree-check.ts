import { sha256Bytes } from '../../kernel/hash.ts'
import type { ReportFinding } from './findings.ts'
import type { FsckHead, FsckLogRow } from './source.ts'

/**
 * Checks every stored node against the hashes of its two children as stored, and every leaf against its record. If all of these
 * hold, all nodes are right; if one does not, the finding is at the damage and not at every node above it. After missing rows,
 * only what can still be checked is checked.
 */
export type TreeCheck = Readonly<{
  add(row: FsckLogRow): void
  /** The root over the entries so far; undefined if rows are missing. */
  root(): Buffer | undefined
  checkHead(head: FsckHead, tenant: string): void
  size(): number
}>

type Subtree = Readonly<{ index: number; hash: Buffer }>

/** Index = level: the last subtree with an even index, which is the left partner of the next one. */
type Lefts = (Subtree | undefined)[]

export function createTreeCheck(report: ReportFinding): TreeCheck {
  const lefts: Lefts = []
  let size = 0
  return {
    add(row) {
      addRow(lefts, row, report)
      size = row.seq + 1
    },
    root() {
      const peaks = peaksOf(lefts, size)
      if (peaks === undefined) return undefined
      return size === 0 ? sha256Bytes('') : peaks.reduceRight((right, left) => joined(left, right))
    },
    checkHead(head, tenant) {
      const location = { table: 'log_heads', row: tenant } as const
      if (head.size !== size) {
        report({ ...location, rule: 'head.size', field: 'size', expected: size, actual: head.size })
        return
      }
      const peaks = peaksOf(lefts, size)
      if (peaks === undefined) return
      const [expected, actual] = [Buffer.concat(peaks).toString('hex'), Buffer.from(head.peaks).toString('hex')]
      if (expected !== actual) report({ ...location, rule: 'head.peaks', field: 'peaks', expected, actual })
    },
    size: () => size,
  }
}

function addRow(lefts: Lefts, { seq, record, nodes }: FsckLogRow, report: ReportFinding): void {
  const location = { table: 'log_entries', row: String(seq), rule: 'log.nodes' } as const
  const levels = completedLevels(seq)
  if (nodes.length !== 32 * levels) {
    report({
      ...location,
      field: 'nodes',
      expected: 32 * levels,
      actual: nodes.length,
      detail: 'Wrong number of bytes.',
    })
  }
  let computed: Buffer | undefined = sha256Bytes(Buffer.concat([Buffer.of(0), Buffer.from(record, 'utf8')]))
  let index = seq
  for (let level = 0; level < levels; level++) {
    const stored = Buffer.from(nodes.subarray(32 * level, 32 * level + 32))
    const isWhole = stored.length === 32
    if (isWhole && computed !== undefined && !stored.equals(computed)) {
      const [expected, actual] = [computed.toString('hex'), stored.toString('hex')]
      report({ ...location, field: `level ${level}`, expected, actual })
    }
    const node: Buffer | undefined = isWhole ? stored : computed
    const left: Subtree | undefined = lefts[level]
    if (index % 2 === 0) lefts[level] = node === undefined ? undefined : { index, hash: node }
    computed = left?.index === index - 1 && node !== undefined ? joined(left.hash, node) : undefined
    index = Math.floor(index / 2)
  }
}

/** The perfect subtrees, largest first; undefined if one is unknown because rows are missing. */
function peaksOf(lefts: Lefts, size: number): Buffer[] | undefined {
  const hashes: Buffer[] = []
  let level = 0
  for (let count = size; count > 0; count = Math.floor(count / 2)) {
    if (count % 2 === 1) {
      const peak = lefts[level]
      if (peak?.index !== count - 1) return undefined
      hashes.unshift(peak.hash)
    }
    level++
  }
  return hashes
}

function completedLevels(seq: number): number {
  let levels = 1
  for (let rest = seq; rest % 2 === 1; rest = (rest - 1) / 2) levels++
  return levels
}

const joined = (left: Buffer, right: Buffer): Buffer => sha256Bytes(Buffer.concat([Buffer.of(1), left, right]))
