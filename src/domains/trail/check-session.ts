import type { RawLogEntry } from '../../audit/ports.ts'
import { createSessionTree } from '../../audit/session-tree.ts'
import { canonicalJson, type Json } from '../../kernel/canonical-json.ts'
import { isoTime } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { formatSessionId, formatTaskId } from '../tasks/rules.ts'
import { MISSING, UNKNOWN } from './chain-report.ts'
import { effectsOf, latin1Of } from './log-text.ts'
import type { AuditSession } from './ports.ts'

/** The start and the end of a session, as recorded in the log. */
export const startedBody = (session: AuditSession) => ({
  session_id: formatSessionId(session.number),
  task_id: formatTaskId(session.taskNumber),
  auditor_id: session.auditorId,
  reason: session.reason,
  scope: session.scope,
  started_at: isoTime(session.startedAtMs),
  started_by: session.startedBy,
  start_seq: session.startSeq,
})

export const finalizedBody = (session: AuditSession, finalized: NonNullable<AuditSession['finalized']>) => ({
  session_id: formatSessionId(session.number),
  task_id: finalized.onlyTaskNumber === null ? null : formatTaskId(finalized.onlyTaskNumber),
  merkle_root: finalized.merkleRoot,
  tree_depth: finalized.treeDepth,
  leaf_count: finalized.leafCount,
  finalized_at: isoTime(finalized.atMs),
  end_seq: finalized.endSeq,
})

const HASH = /^[0-9a-f]{64}$/

/**
 * Compares the row of an audit session with the log: its start and its end must be there exactly once and match, and a frozen
 * root must be the root of the records that the session covers.
 */
export function createSessionCheck(session: AuditSession, whole: boolean) {
  const id = formatSessionId(session.number)
  const expected = new Map<string, string | undefined>([
    ['session_started', textOf(() => startedBody(session))],
    ['session_finalized', textOf(() => session.finalized && finalizedBody(session, session.finalized))],
  ])
  const found = new Map<string, string>()
  const tree = createSessionTree()
  let treeIsWhole = whole
  let repeated: string | undefined

  return {
    /** To be called for every entry, in the scope or not. */
    entry({ record }: RawLogEntry): void {
      if (!latin1Of(record).includes('"kind":"session_')) return
      for (const { kind, body } of effectsOf(record)) {
        if (!expected.has(kind) || body['session_id'] !== id) continue
        if (found.has(kind)) repeated = kind
        found.set(kind, canonicalJson(body))
      }
    },
    leaf(hash: string): void {
      if (HASH.test(hash)) tree.add(hash)
      else treeIsWhole = false
    },
    /** What is wrong with the session itself. The tree is checked only if its records are all intact. */
    problem(recordsAreIntact: boolean): readonly [expected: string, actual: string] | undefined {
      for (const [kind, text] of expected) {
        const logged = found.get(kind)
        if (logged !== text || repeated === kind) return difference(logged, text)
      }
      if (session.finalized === null || !treeIsWhole || !recordsAreIntact) return undefined
      const { root, leafCount } = tree.summary()
      const { merkleRoot } = session.finalized
      return root === merkleRoot && leafCount === session.finalized.leafCount ? undefined : [root, merkleRoot]
    },
  }
}

/** The frozen roots if they differ, since people compare those; otherwise the hashes of the whole bodies. */
function difference(logged: string | undefined, text: string | undefined): readonly [string, string] {
  const roots = [rootIn(logged), rootIn(text)] as const
  return roots[0] === roots[1] ? [digestOf(logged), digestOf(text)] : roots
}

const digestOf = (text: string | undefined): string => (text === undefined ? MISSING : sha256Hex(text))

function rootIn(text: string | undefined): string {
  const root = text === undefined ? undefined : (JSON.parse(text) as { merkle_root?: unknown }).merkle_root
  return typeof root === 'string' ? root : MISSING
}

function textOf(body: () => Readonly<Record<string, Json>> | null): string | undefined {
  try {
    const value = body()
    return value === null ? undefined : canonicalJson(value)
  } catch {
    return JSON.stringify({ session: UNKNOWN })
  }
}
