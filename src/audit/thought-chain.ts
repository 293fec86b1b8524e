import { sha256Hex } from '../kernel/hash.ts'

/** The six fields that the hash of a thought covers. */
type ThoughtLink = Readonly<{
  task_id: string
  type: string
  content: string
  previous_hash: string | null
  recorded_at: string
  recorded_by: string
}>

/** SHA-256, in hex, over `JSON.stringify` of the six fields in exactly this order. */
export const thoughtHash = (thought: ThoughtLink): string =>
  sha256Hex(
    JSON.stringify({
      task_id: thought.task_id,
      type: thought.type,
      content: thought.content,
      previous_hash: thought.previous_hash,
      recorded_at: thought.recorded_at,
      recorded_by: thought.recorded_by,
    }),
  )

type ChainProblem = Readonly<{
  rule: 'thought-shape' | 'thought-hash' | 'thought-link' | 'thought-position'
  field: string
  expected: string | number | null
  actual: unknown
}>

type Body = Readonly<Record<string, unknown>>

type ThoughtChains = Readonly<{
  /** Checks the next thought of the log against its own hash and against the thought before it on the same task. */
  check(body: Body): ChainProblem | undefined
  thoughtCount(): number
  taskCount(): number
}>

type ChainEnd = { hash: string; position: number }

const textFields = ['thought_id', 'task_id', 'type', 'content', 'recorded_at', 'recorded_by', 'hash'] as const

/** The checks of a thought that need no earlier thought. */
export function checkThoughtAlone(body: Body): ChainProblem | undefined {
  for (const field of textFields) {
    if (typeof body[field] !== 'string') {
      return { rule: 'thought-shape', field, expected: 'a text', actual: body[field] }
    }
  }
  const expected = thoughtHash(body as ThoughtLink)
  return body['hash'] === expected ? undefined : { rule: 'thought-hash', field: 'hash', expected, actual: body['hash'] }
}

export function createThoughtChains(): ThoughtChains {
  const ends = new Map<string, ChainEnd>()
  let thoughts = 0

  return {
    check(body) {
      const problem = checkThoughtAlone(body)
      if (problem !== undefined) return problem
      const taskId = body['task_id'] as string
      const end = ends.get(taskId)
      const previousHash = end?.hash ?? null
      const position = (end?.position ?? 0) + 1
      if (body['previous_hash'] !== previousHash) {
        return { rule: 'thought-link', field: 'previous_hash', expected: previousHash, actual: body['previous_hash'] }
      }
      if (body['chain_position'] !== position) {
        return { rule: 'thought-position', field: 'chain_position', expected: position, actual: body['chain_position'] }
      }
      const hash = body['hash'] as string
      if (end === undefined) {
        ends.set(taskId, { hash, position })
      } else {
        end.hash = hash
        end.position = position
      }
      thoughts++
      return undefined
    },
    thoughtCount: () => thoughts,
    taskCount: () => ends.size,
  }
}
