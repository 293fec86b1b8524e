import { canonicalJson, type Json } from '../../kernel/canonical-json.ts'
import { isoTime } from '../../kernel/clock.ts'
import { formatTaskId, formatThoughtId } from '../tasks/rules.ts'
import type { Thought } from './ports.ts'

/** The whole thought as recorded in the log. The log's tree covers the fields outside the document's hash. */
export function thoughtBody(thought: Thought): Record<string, Json | undefined> {
  return {
    blockers: thought.blockers ?? undefined,
    branch: thought.branch ?? undefined,
    chain_position: thought.chainPosition,
    commit_sha: thought.commitSha ?? undefined,
    content: thought.content,
    hash: thought.hash,
    metadata: thought.metadata ?? undefined,
    previous_hash: thought.previousHash,
    recorded_at: isoTime(thought.recordedAtMs),
    recorded_by: thought.recordedBy,
    task_id: formatTaskId(thought.taskNumber),
    tests_run: thought.testsRun ?? undefined,
    thought_id: formatThoughtId(thought.number),
    type: thought.type,
  }
}

/**
 * The same as the texts that a verifier compares: the effect as it stands in a canonical log record, in two parts around the Θ of
 * the id, and the text under the document's hash. They are written out because serialising objects takes three times as long; a
 * test compares them with `thoughtBody` and `thoughtHash`.
 */
export function thoughtTexts(thought: Thought): { head: string; tail: string; hashed: string } {
  const content = JSON.stringify(thought.content)
  const previousHash = thought.previousHash === null ? 'null' : JSON.stringify(thought.previousHash)
  const recordedBy = JSON.stringify(thought.recordedBy)
  const recordedAt = isoTime(thought.recordedAtMs)
  const taskId = formatTaskId(thought.taskNumber)
  const type = JSON.stringify(thought.type)
  const hash = JSON.stringify(thought.hash)
  let head = '{"body":{'
  if (thought.blockers !== null) head += `"blockers":${canonicalJson(thought.blockers)},`
  if (thought.branch !== null) head += `"branch":${JSON.stringify(thought.branch)},`
  head += `"chain_position":${thought.chainPosition}`
  if (thought.commitSha !== null) head += `,"commit_sha":${JSON.stringify(thought.commitSha)}`
  head += `,"content":${content},"hash":${hash}`
  if (thought.metadata !== null) head += `,"metadata":${canonicalJson(thought.metadata)}`
  head += `,"previous_hash":${previousHash},"recorded_at":"${recordedAt}","recorded_by":${recordedBy},"task_id":"${taskId}"`
  if (thought.testsRun !== null) head += `,"tests_run":${canonicalJson(thought.testsRun)}`
  const number = formatThoughtId(thought.number).slice(1)
  const subject = `"subject":"task:${thought.taskNumber}"`
  return {
    head: `${head},"thought_id":"`,
    tail: `${number}","type":${type}},"hash":${hash},"kind":"thought_recorded",${subject}}`,
    hashed: `{"task_id":"${taskId}","type":${type},"content":${content},"previous_hash":${previousHash},"recorded_at":"${recordedAt}","recorded_by":${recordedBy}}`,
  }
}
