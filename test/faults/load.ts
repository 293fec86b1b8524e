import { digest } from '../../src/audit/call-entry.ts'
import type { LogRecord } from '../support/app.ts'
import type { Outcome } from '../support/castellan-client.ts'
import type { SeededRandom } from '../support/seeded-random.ts'
import type { StoredState } from '../support/stored-state.ts'

/** Anything that can be called and may be gone the next moment. */
export type Target = Readonly<{ call(tool: string, args: object): Promise<Outcome> }>

type Asked = Readonly<{ tool: string; args: Record<string, unknown>; mark: string }>

/** What the driver of a load knows, in a process that nobody kills. */
export type Books = {
  readonly acknowledged: Map<string, Readonly<{ tool: string; answer: Record<string, unknown> }>>
  /** Calls of which the caller was told that nobody knows, or nothing at all. */
  readonly unknown: Set<string>
  /** Calls of which the caller was told that nothing happened. */
  readonly undone: Set<string>
  readonly unexpected: string[]
  /** The code of a call that failed for the reason under test, and did nothing unless it says that nobody knows. */
  readonly undoneCode: string
  readonly taskIds: string[]
  count: number
}

export const newBooks = (undoneCode: string): Books => ({
  undoneCode,
  acknowledged: new Map(),
  unknown: new Set(),
  undone: new Set(),
  unexpected: [],
  taskIds: [],
  count: 0,
})

/** Calls `target` on several lanes, each as fast as it is answered, until told to stop or until the target is gone. */
export async function load(
  target: Target,
  books: Books,
  random: SeededRandom,
  options: Readonly<{ lanes: number; isStopped(): boolean }>,
): Promise<void> {
  const lane = async (): Promise<void> => {
    while (!options.isStopped()) {
      const asked = nextCall(books, random)
      const outcome = await target.call(asked.tool, asked.args)
      note(books, asked, outcome)
      if (outcome.kind === 'gone') return
    }
  }
  await Promise.all(Array.from({ length: options.lanes }, lane))
}

function nextCall(books: Books, random: SeededRandom): Asked {
  const mark = `mark-${++books.count}-end`
  const choice = random.below(10)
  const task_id = books.taskIds[random.below(Math.max(books.taskIds.length, 1))]
  if (task_id === undefined || choice < 5) {
    const args = { title: mark, project: `project-${random.below(3)}`, labels: ['load'] }
    return { tool: 'task_create', mark, args }
  }
  if (choice < 8) return { tool: 'thought_record', mark, args: { task_id, type: 'decision', content: mark } }
  return { tool: 'task_update', mark, args: { task_id, description: mark } }
}

function note(books: Books, { tool, mark }: Asked, outcome: Outcome): void {
  if (outcome.kind === 'done') {
    books.acknowledged.set(mark, { tool, answer: outcome.answer })
    if (tool === 'task_create') books.taskIds.push(String(outcome.answer['task_id']))
  } else if (outcome.kind === 'gone' || outcome.isUnknown) books.unknown.add(mark)
  else if (outcome.code === books.undoneCode) books.undone.add(mark)
  else books.unexpected.push(`${tool}: ${outcome.code} ${outcome.message}`)
}

/** Acknowledged calls that the state does not hold once and as told, and calls that it holds although it should not. */
export function disagreements(state: StoredState, books: Books): string[] {
  const wrong = books.unexpected.map((line) => `unexpected answer: ${line}`)
  const records = recordsByMark(state)
  for (const [mark, { tool, answer }] of books.acknowledged) {
    const found = records.get(mark) ?? []
    if (found.length !== 1) wrong.push(`${tool} ${mark} was acknowledged and is there ${found.length} times`)
    else if (found[0]!.output !== digest(JSON.stringify(answer))) {
      wrong.push(`${tool} ${mark} was told as ${JSON.stringify(answer)} and is ${JSON.stringify(found[0])}`)
    }
  }
  for (const [mark, found] of records) {
    if (books.undone.has(mark)) wrong.push(`${mark} was told as not done and is there`)
    if (found.length > 1) wrong.push(`${mark} is there ${found.length} times`)
  }
  return wrong
}

function recordsByMark(state: StoredState): Map<string, LogRecord[]> {
  const found = new Map<string, LogRecord[]>()
  for (const record of state.log) {
    const mark = /mark-\d+-end/.exec(JSON.stringify(record.effects ?? []))?.[0]
    if (mark !== undefined) found.set(mark, [...(found.get(mark) ?? []), record])
  }
  return found
}
