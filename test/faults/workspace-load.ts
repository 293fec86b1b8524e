import { ask, type CastellanClient, type Outcome } from '../support/castellan-client.ts'
import type { SeededRandom } from '../support/seeded-random.ts'

/** A workspace as its caller knows it; `content` is that of one file, empty where there is none. */
type Known = Readonly<{
  state: 'running' | 'stopped'
  content: string
  snapshots: readonly Readonly<{ name: string; content: string }>[]
}>
/** What a workspace may be: one thing while every call was answered, several after one that was not. */
type Possible = readonly (Known | undefined)[]

/** What the driver of a load knows of its workspaces, in a process that nobody kills. */
export type WorkspaceBooks = {
  /** Of the names that are its own; others may have workspaces beside. */
  readonly prefix: string
  readonly workspaces: Map<string, Possible>
  readonly unexpected: string[]
  /** While the supervisor dies, calls may fail that otherwise may not. */
  mayFail: boolean
  acknowledged: number
  unanswered: number
  count: number
}

export const newBooks = (prefix = ''): WorkspaceBooks => ({
  prefix,
  workspaces: new Map(),
  unexpected: [],
  mayFail: false,
  acknowledged: 0,
  unanswered: 0,
  count: 0,
})

type Step = Readonly<{ tool: string; args: object; after: ReadonlyMap<string, Known | undefined> }>

const PATH = '/kept/mark'
const WORKSPACES_PER_LANE = 4
const failures = new Set(['ERR_BACKEND_FAILED', 'ERR_WORKSPACE_STOPPED', 'ERR_WORKSPACE_STATE', 'ERR_BUSY'])

/** Works on workspaces of its own, one call after the other, until told to stop or until nobody knows what became of a call. */
export async function workOnWorkspaces(
  client: CastellanClient,
  books: WorkspaceBooks,
  random: SeededRandom,
  lane: Readonly<{ name: string; isStopped(): boolean }>,
): Promise<void> {
  while (!lane.isStopped()) {
    const step = nextStep(books, random, lane.name)
    const outcome = await client.call(step.tool, step.args)
    enter(books, step, outcome)
    if (outcome.kind !== 'done') return
  }
}

function nextStep(books: WorkspaceBooks, random: SeededRandom, lane: string): Step {
  const own = [...books.workspaces].flatMap(([name, [known]]) =>
    known !== undefined && name.startsWith(`${lane}-`) ? [{ name, known }] : [],
  )
  if (own.length === 0) return create(`${lane}-${++books.count}`)
  const { name, known } = own[random.below(own.length)]!
  const snapshot = known.snapshots[random.below(Math.max(known.snapshots.length, 1))]
  const choices: (() => Step)[] = [
    () => moved(name, known),
    () => taken(name, known, `s${++books.count}`),
    () => ({ tool: 'workspace_destroy', args: { workspace_id: name }, after: new Map([[name, undefined]]) }),
    () => ({
      tool: 'workspace_destroy',
      args: { workspace_id: name, keep_snapshots: true },
      after: new Map([[name, undefined]]),
    }),
  ]
  if (known.state === 'running') choices.push(...Array(3).fill(() => written(name, known, `mark ${++books.count}`)))
  if (own.length < WORKSPACES_PER_LANE) choices.push(() => create(`${lane}-${++books.count}`))
  if (snapshot !== undefined) {
    choices.push(() => restored(name, known, snapshot.name))
    choices.push(() => removed(name, known, snapshot.name))
    if (own.length < WORKSPACES_PER_LANE)
      choices.push(() => forked(name, snapshot, `${lane}-f${++books.count}`, 1 + random.below(3)))
  }
  return choices[random.below(choices.length)]!()
}

const create = (name: string): Step => ({
  tool: 'workspace_create',
  args: { name, memory_mb: 64 },
  after: new Map([[name, { state: 'running', content: '', snapshots: [] }]]),
})
const moved = (name: string, known: Known): Step => {
  const state = known.state === 'running' ? 'stopped' : 'running'
  const tool = state === 'running' ? 'workspace_start' : 'workspace_stop'
  return { tool, args: { workspace_id: name }, after: new Map([[name, { ...known, state }]]) }
}
const written = (name: string, known: Known, content: string): Step => ({
  tool: 'file_write',
  args: { workspace_id: name, path: PATH, content },
  after: new Map([[name, { ...known, content }]]),
})
const snapshotStep = (name: string, action: string, snapshot: string, after: Known): Step => ({
  tool: 'snapshot',
  args: { workspace_id: name, action, name: snapshot },
  after: new Map([[name, after]]),
})
const taken = (name: string, known: Known, snapshot: string): Step => {
  const snapshots = [...known.snapshots, { name: snapshot, content: known.content }]
  return snapshotStep(name, 'create', snapshot, { ...known, snapshots })
}
const removed = (name: string, known: Known, snapshot: string): Step => {
  const snapshots = known.snapshots.filter((one) => one.name !== snapshot)
  return snapshotStep(name, 'delete', snapshot, { ...known, snapshots })
}
const restored = (name: string, known: Known, snapshot: string): Step => {
  const at = known.snapshots.findIndex((one) => one.name === snapshot)
  const { content } = known.snapshots[at]!
  return snapshotStep(name, 'restore', snapshot, { ...known, content, snapshots: known.snapshots.slice(0, at + 1) })
}
function forked(name: string, snapshot: Known['snapshots'][number], prefix: string, count: number): Step {
  const fork: Known = { state: 'running', content: snapshot.content, snapshots: [] }
  return {
    tool: 'workspace_fork',
    args: { workspace_id: name, snapshot_name: snapshot.name, name_prefix: prefix, count },
    after: new Map(Array.from({ length: count }, (_, index) => [`${prefix}-${index + 1}`, fork])),
  }
}

function enter(books: WorkspaceBooks, { tool, args, after }: Step, outcome: Outcome): void {
  const isDone = outcome.kind === 'done'
  if (isDone) books.acknowledged++
  else books.unanswered++
  if (outcome.kind === 'failed' && !(books.mayFail && failures.has(outcome.code))) {
    books.unexpected.push(`${tool} ${JSON.stringify(args)}: ${outcome.code} ${outcome.message}`)
  }
  const failed = isDone ? ((outcome.answer['failures'] ?? []) as { name: string; error: string }[]) : []
  for (const { name, error } of failed) if (!books.mayFail) books.unexpected.push(`${tool} ${name}: ${error}`)
  // A fork that failed had no number yet; which forks there are is in what was made.
  const made = isDone ? ((outcome.answer['workers'] ?? []) as { name: string }[]).map(({ name }) => name) : []
  for (const [name, next] of after) {
    const before = books.workspaces.get(name) ?? [undefined]
    if (failed.length > 0 && !made.includes(name)) books.workspaces.set(name, [undefined])
    else books.workspaces.set(name, isDone ? [next] : [...before, next])
  }
}

/** After the end of the supervisor nothing runs any more, whatever was told before. */
export function noteSupervisorDeath(books: WorkspaceBooks): void {
  for (const [name, possible] of books.workspaces) {
    const stopped = possible.flatMap((known) => (known === undefined ? [] : [{ ...known, state: 'stopped' as const }]))
    books.workspaces.set(name, [...possible, ...stopped])
  }
}

type Listed = Readonly<{ name: string; state: Known['state'] }>

/** Looks at every workspace, through the program, and answers what is not as it was told. From then on the books are sure again. */
export async function untrue(client: CastellanClient, books: WorkspaceBooks): Promise<string[]> {
  const wrong = books.unexpected.splice(0)
  const listed = (await ask(client, 'workspace_list', {}))['workspaces'] as Listed[]
  const own = listed.filter(({ name }) => name.startsWith(books.prefix))
  const found = new Map(own.map(({ name, state }) => [name, state]))
  for (const name of found.keys()) if (!books.workspaces.has(name)) wrong.push(`${name} is there and nobody made it`)
  for (const [name, possible] of books.workspaces) {
    const state = found.get(name)
    const actual = state === undefined ? undefined : await look(client, name, state)
    const match = possible.find((one) => isSame(one, actual))
    if (match === undefined && actual !== undefined) {
      wrong.push(`${name} is ${JSON.stringify(actual)} and may be ${JSON.stringify(possible)}`)
    } else if (actual === undefined && !possible.includes(undefined)) {
      wrong.push(`${name} is gone and may be ${JSON.stringify(possible)}`)
    }
    if (match === undefined) books.workspaces.delete(name)
    // It had to be started to be looked at.
    else books.workspaces.set(name, [{ ...match, state: 'running' }])
  }
  return wrong
}

type Actual = Readonly<{ state: Known['state']; content: string; snapshots: readonly string[] }>

const isSame = (known: Known | undefined, actual: Actual | undefined): boolean =>
  known?.state === actual?.state &&
  known?.content === actual?.content &&
  JSON.stringify(known?.snapshots.map(({ name }) => name)) === JSON.stringify(actual?.snapshots)

async function look(client: CastellanClient, workspace_id: string, state: Known['state']): Promise<Actual> {
  if (state === 'stopped') await ask(client, 'workspace_start', { workspace_id })
  const list = (await ask(client, 'snapshot', { workspace_id, action: 'list' }))['snapshots'] as { name: string }[]
  const read = await client.call('file_read', { workspace_id, path: PATH })
  if (read.kind !== 'done' && !(read.kind === 'failed' && read.code === 'ERR_FILE_NOT_FOUND')) {
    throw new Error(`${workspace_id} (${state}) cannot be read: ${JSON.stringify(read)}`)
  }
  const content = read.kind === 'done' ? String(read.answer['content']) : ''
  return { state, content, snapshots: list.map(({ name }) => name) }
}
