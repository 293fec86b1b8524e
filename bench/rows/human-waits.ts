import { readFile } from 'node:fs/promises'
import { type Bench, openContender } from '../bench-context.ts'
import { callTool } from '../client.ts'
import { median } from '../interleave.ts'
import { castellan } from '../launch.ts'
import { msText } from '../table.ts'

const WATCH_MS = 5_000
const WINDOWS = 5
/** Of the processor time that the kernel counts; the same on every Linux. */
const TICK_MS = 10
const AT_ONCE = 16

const manifest = `apiVersion: 100monkeys.ai/v1
kind: Workflow
metadata: { name: ask, version: "1.0.0" }
spec:
  initial_state: ASK
  states:
    ASK: { kind: Human, prompt: "Shall it go on?", timeout: 48h, transitions: [{ condition: always, target: END }] }
    END: { kind: System, command: update_blackboard, transitions: [] }
`

/** Workflows that wait for a person, in the program as people start it; its processor time is the kernel's count. */
export async function reportWaits(bench: Bench): Promise<void> {
  const waits = bench.quick ? 200 : 1_000
  const connection = await openContender(bench, castellan, { CASTELLAN_RATE_LIMITS_ENABLED: 'false' })
  try {
    await callTool(connection, 'aegis.workflow.create', { manifest_yaml: manifest })
    const idleMs = await usedMs(connection.pid)
    bench.progress(`${waits} runs that wait for a person`)
    const ids: string[] = []
    const lane = async (): Promise<void> => {
      while (ids.length < waits) {
        const index = ids.push('') - 1
        ids[index] = String((await callTool(connection, 'aegis.workflow.run', { name: 'ask' }))['execution_id'])
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, lane))
    for (const execution_id of ids) await untilAsked(connection, execution_id)
    // The process tidies its heap for a while after the work of starting them, which is not the price of waiting.
    const windows: number[] = []
    while (windows.length < WINDOWS) windows.push(await usedMs(connection.pid))
    const parkedMs = median(windows)
    bench.report({
      what: `${waits} Human states that wait, share of a processor`,
      inFlight: null,
      ours: `${msText(parkedMs)} in ${WATCH_MS / 1000} s`,
      peer: `none waiting ${msText(idleMs)}`,
      ratio: parkedMs / WATCH_MS,
      target: { atMost: 0.02 },
    })
  } finally {
    await connection.close()
  }
}

async function untilAsked(connection: Parameters<typeof callTool>[0], execution_id: string): Promise<void> {
  for (;;) {
    const { events } = await callTool(connection, 'aegis.workflow.logs', { execution_id })
    if ((events as { event_type: string }[]).some(({ event_type }) => event_type === 'wait_began')) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** What the process uses while nobody asks it anything. */
async function usedMs(pid: number): Promise<number> {
  const before = await processorMs(pid)
  await new Promise((resolve) => setTimeout(resolve, WATCH_MS))
  return (await processorMs(pid)) - before
}

async function processorMs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  // The name of the program, in brackets, may have blanks; what follows it starts with the third field.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}
