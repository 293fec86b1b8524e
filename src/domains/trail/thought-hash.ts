import type { Json } from '../../kernel/canonical-json.ts'
import { isoTime } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { formatTaskId, formatThoughtId } from '../tasks/rules.ts'
import type { Thought } from './ports.ts'

/** The document's hash, literally: these six fields, in this order, as JSON.stringify writes them. */
export function thoughtHash(fields: {
  task_id: string
  type: string
  content: string
  previous_hash: string | null
  recorded_at: string
  recorded_by: string
}): string {
  return sha256Hex(
    JSON.stringify({
      task_id: fields.task_id,
      type: fields.type,
      content: fields.content,
      previous_hash: fields.previous_hash,
      recorded_at: fields.recorded_at,
      recorded_by: fields.recorded_by,
    }),
  )
}

/** The whole thought as the log keeps it: the fields outside the document's hash are covered by the log's tree. */
export function thoughtBody(thought: Thought): Record<string, Json> {
  return {
    thought_id: formatThoughtId(thought.number),
    task_id: formatTaskId(thought.taskNumber),
    type: thought.type,
    content: thought.content,
    ...(thought.branch === null ? {} : { branch: thought.branch }),
    ...(thought.commitSha === null ? {} : { commit_sha: thought.commitSha }),
    ...(thought.testsRun === null ? {} : { tests_run: thought.testsRun }),
    ...(thought.blockers === null ? {} : { blockers: thought.blockers }),
    ...(thought.metadata === null ? {} : { metadata: thought.metadata }),
    hash: thought.hash,
    previous_hash: thought.previousHash,
    recorded_at: isoTime(thought.recordedAtMs),
    recorded_by: thought.recordedBy,
    chain_position: thought.chainPosition,
  }
}
