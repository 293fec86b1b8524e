import { hash } from 'node:crypto'
import { expect } from 'vitest'
import type { TestApp } from './app.ts'

/** What the tests of the ledger share: records to begin with, and the document's own arithmetic, done over again. */
export type Thought = Readonly<{
  thought_id: string
  task_id: string
  type: string
  content: string
  hash: string
  previous_hash: string | null
  recorded_at: string
  recorded_by: string
  chain_position: number
}>

export type ChainVerdict = Readonly<{
  session_id?: string
  task_id?: string
  chain_valid: boolean
  total_records: number
  integrity_score: number
  broken_links: readonly Readonly<{ position: number; expected_hash: string; actual_hash: string }>[]
  verified_at: string
  log: Readonly<{ size: number; valid: boolean; first_bad_seq: number | null; checkpoint: string }>
  trace?: readonly Readonly<{ position: number; kind: string; task_id: string; hash: string; log_seq: number }>[]
}>

export const sha256 = (data: string | Uint8Array): string => hash('sha256', data, 'hex')

/** The six fields in the order in which the document writes them. */
export const documentHash = (thought: Omit<Thought, 'hash' | 'thought_id' | 'chain_position'>): string =>
  sha256(
    JSON.stringify({
      task_id: thought.task_id,
      type: thought.type,
      content: thought.content,
      previous_hash: thought.previous_hash,
      recorded_at: thought.recorded_at,
      recorded_by: thought.recorded_by,
    }),
  )

/** The document's tree, level by level: SHA-256 over the bytes of both children, one without a partner moves up. */
export function documentTree(leaves: readonly string[]): { root: string; depth: number } {
  if (leaves.length === 0) return { root: sha256(''), depth: 0 }
  if (leaves.length === 1) return { root: leaves[0]!, depth: 1 }
  const above: string[] = []
  for (let at = 0; at < leaves.length; at += 2) {
    const [left, right] = [leaves[at]!, leaves[at + 1]]
    above.push(right === undefined ? left : sha256(Buffer.from(left + right, 'hex')))
  }
  const { root, depth } = documentTree(above)
  return { root, depth: depth + 1 }
}

export const newTask = async (app: TestApp, rest: object = {}): Promise<string> =>
  (await app.ask<{ task_id: string }>('task_create', { title: 'a task', project: 'castellan', ...rest })).task_id

/** The thought as it was recorded, with the content that the answer leaves out. */
export async function think(app: TestApp, taskId: string, content: string, rest: object = {}): Promise<Thought> {
  const answer = await app.ask<Omit<Thought, 'content'>>('thought_record', {
    task_id: taskId,
    type: 'decision',
    content,
    ...rest,
  })
  return { ...answer, content }
}

export const verify = (app: TestApp, args: object): Promise<ChainVerdict> => app.ask('audit_verify_chain', args)

/** Moves a task through the given states. */
export async function move(app: TestApp, taskId: string, ...states: readonly string[]): Promise<void> {
  for (const status of states) {
    await app.ask('task_update', {
      task_id: taskId,
      status,
      ...(status === 'blocked' ? { blocked_reason: 'waiting' } : {}),
    })
  }
}

export async function expectFailure(
  app: TestApp,
  name: string,
  args: object,
  code: string,
  details: object = {},
): Promise<void> {
  const failure = await app.refusal(name, args)
  expect(failure, `${name} ${JSON.stringify(args)}`).toMatchObject({ code, details })
  expect(failure.message.length).toBeGreaterThan(10)
}
