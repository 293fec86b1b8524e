/** The calls that the bench makes, with the arguments that the ledger's document defines. */
import { type Connection, callBody, callTool, drive } from './client.ts'

const description =
  'Implement the handler per the breakdown.\n\n- Accept the input\n- Validate it\n- Store it\n- Return it'
const thought =
  'Completed the handler. All tests pass, and validation works for the edge cases that the reviewer asked about in round two.'

const ping = callBody('server_ping', {})
export const pingBody = (): string => ping

export const taskCreateBody = (n: number): string =>
  callBody('task_create', {
    title: `Wire up handler ${n}`,
    description,
    project: 'bench',
    priority: n % 5 === 0 ? 'high' : 'normal',
    labels: ['phase-0', 'mcp', 'backend'],
    estimate_hours: 4,
  })

export const thoughtArguments = (taskId: string): Readonly<Record<string, unknown>> => ({
  task_id: taskId,
  type: 'reflection',
  content: thought,
  branch: 'feature/task-create',
  commit_sha: 'a3f7d9b2c',
  tests_run: ['task_create.test.ts'],
  blockers: [],
})

/** Records for each task in turn, so that callers in flight mostly append to different chains. */
export const thoughtRecordBody = (taskIds: readonly string[]): ((n: number) => string) => {
  const bodies = taskIds.map((id) => callBody('thought_record', thoughtArguments(id)))
  return (n) => bodies[n % bodies.length] as string
}

const list = callBody('task_list', { limit: 50 })
export const taskListBody = (): string => list

export const createTasks = async (connection: Connection, count: number): Promise<string[]> => {
  const ids: string[] = []
  for (let n = 0; n < count; n++) {
    const task = await callTool(connection, 'task_create', { title: `Bench chain ${n}`, project: 'bench' })
    ids.push(String(task['task_id']))
  }
  return ids
}

/** Many tasks quickly; their number is exact. */
export const fillTasks = async (connection: Connection, count: number): Promise<void> => {
  await drive(connection, { inFlight: 64, callsMax: count, timeMaxMs: 120_000, body: taskCreateBody })
}
