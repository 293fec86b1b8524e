import { sha256Hex } from '../../kernel/hash.ts'

/**
 * Recomputes what a finalized session froze: the tree over the trail records, from the session's first entry up to but not
 * including its last, of its task (`shallow`), of its task and all tasks below (`deep`), or of the one task that was named when
 * it was finalized.
 */
export type SessionRoots = Readonly<{
  addTask(taskId: string, parentId: unknown): void
  addTrailRecord(taskId: string, seq: number, hash: unknown): void
  start(sessionId: string): void
  finalize(session: FrozenSession): SessionSummary
}>

type FrozenSession = Readonly<{
  sessionId: string
  taskId: string
  isDeep: boolean
  onlyTaskId: string | null
  startSeq: number
  endSeq: number
}>

type SessionSummary = Readonly<{ merkle_root: string; tree_depth: number; leaf_count: number }>

type TrailRecord = Readonly<{ seq: number; hash: string }>

export function createSessionRoots(): SessionRoots {
  const children = new Map<string, string[]>()
  const open = new Set<string>()
  // Held only while a session is open: nothing else looks back.
  const records = new Map<string, TrailRecord[]>()

  const tasksBelow = (taskId: string): Set<string> => {
    const found = new Set([taskId])
    for (const task of found) for (const child of children.get(task) ?? []) found.add(child)
    return found
  }

  return {
    addTask(taskId, parentId) {
      if (typeof parentId !== 'string') return
      const siblings = children.get(parentId)
      if (siblings === undefined) children.set(parentId, [taskId])
      else siblings.push(taskId)
    },
    addTrailRecord(taskId, seq, hash) {
      if (open.size === 0) return
      const retained = records.get(taskId)
      const record = { seq, hash: String(hash) }
      if (retained === undefined) records.set(taskId, [record])
      else retained.push(record)
    },
    start(sessionId) {
      open.add(sessionId)
    },
    finalize({ sessionId, taskId, isDeep, onlyTaskId, startSeq, endSeq }) {
      const tasks = onlyTaskId !== null ? [onlyTaskId] : isDeep ? tasksBelow(taskId) : [taskId]
      const covered = [...tasks]
        .flatMap((task) => records.get(task) ?? [])
        .filter(({ seq }) => seq >= startSeq && seq < endSeq)
        .sort((left, right) => left.seq - right.seq)
      open.delete(sessionId)
      if (open.size === 0) records.clear()
      return summaryOf(covered.map(({ hash }) => hash))
    },
  }
}

/** Level by level: pairs are hashed as 64 raw bytes, a last one without a partner moves up. */
function summaryOf(leaves: readonly string[]): SessionSummary {
  let level = leaves
  let depth = leaves.length === 0 ? 0 : 1
  for (; level.length > 1; depth++) {
    const above: string[] = []
    for (let at = 0; at < level.length; at += 2) {
      const pair = level.slice(at, at + 2)
      above.push(pair.length === 1 ? pair[0]! : sha256Hex(Buffer.from(pair.join(''), 'hex')))
    }
    level = above
  }
  return { merkle_root: level[0] ?? sha256Hex(''), tree_depth: depth, leaf_count: leaves.length }
}
